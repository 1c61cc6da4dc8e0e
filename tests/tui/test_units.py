"""Figures in words."""

import pytest

from meshllm_tui import units


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (-1, "0 bytes"),
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (105 << 20, "105 MiB"),
        (10 << 30, "10.0 GiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_size(count: float, text: str) -> None:
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (42 << 20, 105 << 20, "42.0 of 105 MiB"),
        (900 << 20, 3 << 30, "900 MiB of 3.0 GiB"),
        (5 << 20, 0, "5.0 MiB so far"),
    ],
)
def test_sizes(done: float, total: float, text: str) -> None:
    assert units.sizes(done, total) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (12.9, "12 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (400_000, "4 days"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


def test_small_words() -> None:
    assert units.number(61.23) == "61.2"
    assert units.number(8192) == "8,192"
    assert units.count(1, "lane") == "1 lane"
    assert units.count(4, "lane") == "4 lanes"
    assert [units.parameters(value) for value in (999, 134_515_008, 7_240_000_000)] == ["999", "135M", "7.2B"]
    assert units.milliseconds(84.4) == "84 ms"
    assert units.milliseconds(1234) == "1.2 s"
    assert units.percent(1, 8) == "12 %"
    assert units.percent(1, 0) == units.UNKNOWN


@pytest.mark.parametrize("fraction", [-1.0, 0.0, 0.5, 1.0, 7.0])
def test_bar_has_its_width(fraction: float) -> None:
    filled, empty = units.bar(fraction, 10)
    assert len(filled) + len(empty) == 10
    assert len(filled) == round(10 * min(max(fraction, 0), 1))
    assert units.bar(fraction, -5) == ("", "")
