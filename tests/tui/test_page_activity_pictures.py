"""How the page of activity looks. After a wanted change: `--snapshot-update`, and look at the pictures."""

import pytest

from tests.tui.conftest import make_app
from tests.tui.page_pictures import Compare, page
from tests.tui.test_page_activity import client


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_dark(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(make_app(client()), terminal_size=size, run_before=page("9"))


def test_light(snap_compare: Compare) -> None:
    app = make_app(client(), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=page("9", "w", "k"))


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_app(client()), terminal_size=(120, 40), run_before=page("9", "k", "k"))


def test_logs(snap_compare: Compare) -> None:
    assert snap_compare(make_app(client()), terminal_size=(80, 24), run_before=page("9", "tab"))


def test_filter(snap_compare: Compare) -> None:
    run = page("9", "slash", *"attic")
    assert snap_compare(make_app(client()), terminal_size=(80, 24), run_before=run)
