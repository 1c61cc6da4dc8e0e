"""Parts of a file, against a real local server: exact, continued when cut, and refused when the hub lies."""

import hashlib
import itertools
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import DownloadFailed
from meshllm_core.models import package_spans
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_spans import PartialFile
from meshllm_core.models.ranges import Ranges
from tests.support.hub import COMMIT, LocalHub

REPO = "owner/model-GGUF"
NAME = "model-Q4_K_M.gguf"
CONTENT = hashlib.shake_128(b"content").digest(500_000)


@pytest.fixture
def ranges(local_hub: LocalHub, hub: Hub) -> Ranges:
    local_hub.add(REPO, {NAME: CONTENT})
    return hub.ranges(REPO, COMMIT, hub.list_files(REPO).files[0])


def read(ranges: Ranges, offset: int, length: int) -> bytes:
    return b"".join(ranges.stream(offset, length))


@pytest.mark.parametrize(("offset", "length"), [(0, 1), (123, 70_000), (499_999, 1), (0, 500_000)])
def test_exactly_the_part_arrives(ranges: Ranges, local_hub: LocalHub, offset: int, length: int) -> None:
    assert read(ranges, offset, length) == CONTENT[offset : offset + length]
    assert ranges.received == local_hub.served[""] == length


def test_a_cut_answer_is_continued(ranges: Ranges, local_hub: LocalHub) -> None:
    local_hub.faults.cut_at, local_hub.faults.cuts = 0.5, 2
    assert read(ranges, 1000, 80_000) == CONTENT[1000:81_000]
    assert [r[2] for r in local_hub.content_requests()] == [
        "bytes=1000-80999",
        "bytes=41000-80999",
        "bytes=61000-80999",
    ]


def test_a_hub_that_never_sends_a_byte_is_given_up(ranges: Ranges, local_hub: LocalHub) -> None:
    local_hub.faults.refusals = [503] * 10
    with pytest.raises(DownloadFailed, match="stopped at byte 10"):
        read(ranges, 10, 10)


@pytest.mark.parametrize("part", [(-1, 5), (0, 0), (499_999, 2), (1 << 62, 1), (0, 1 << 62)])
def test_parts_outside_of_the_file_are_not_asked_for(
    ranges: Ranges, local_hub: LocalHub, part: tuple[int, int]
) -> None:
    with pytest.raises(DownloadFailed, match="are not all in its 500000"):
        read(ranges, *part)
    assert not local_hub.content_requests()


@pytest.mark.parametrize(
    ("fault", "value", "words"),
    [
        ("content_range", "bytes 0-{end}/{total}", "another part"),
        ("content_range", "bytes {start}-499999/{total}", "another part"),
        ("content_range", "bytes {start}-{end}/400000", "another part"),
        ("content_range", "nonsense", "another part"),
        ("extra_bytes", 7, "announced 107 bytes instead of 100"),
        ("encoding", "gzip", "packed"),
        ("ignore_range", True, "cannot be read in parts"),
        ("linked_etag", "0" * 64, "another version"),
    ],
)
def test_a_hub_that_lies_is_refused_by_name(
    ranges: Ranges, local_hub: LocalHub, fault: str, value: object, words: str
) -> None:
    setattr(local_hub.faults, fault, value)
    with pytest.raises(DownloadFailed, match=words) as caught:
        read(ranges, 100, 100)
    assert NAME in caught.value.message
    assert ranges.received == 0


def test_what_is_here_is_not_fetched_again(ranges: Ranges, hub: Hub, tmp_path: Path) -> None:
    part = PartialFile(ranges, tmp_path / NAME)
    part.fetch([(1000, 2000), (300_000, 400_000)])
    assert part.read(1500, 100) == CONTENT[1500:1600]
    before = ranges.received
    again = PartialFile(ranges, tmp_path / NAME)
    assert again.missing([(0, 3000), (350_000, 350_001)]) == [(0, 1000), (2000, 3000)]
    assert again.read(300_000, 100_000) == CONTENT[300_000:400_000]
    assert ranges.received == before
    assert again.read(900, 1200) == CONTENT[900:2100]
    assert ranges.received == before + 200


@pytest.mark.parametrize("ended", [KeyboardInterrupt, DownloadFailed])
def test_what_came_before_an_end_is_kept(
    ranges: Ranges, hub: Hub, local_hub: LocalHub, tmp_path: Path, ended: type[BaseException]
) -> None:
    local_hub.faults.chunk = 20_000
    part = PartialFile(ranges, tmp_path / NAME)

    def stop() -> bool:
        if ranges.received > 150_000 and ended is KeyboardInterrupt:
            raise KeyboardInterrupt
        return ranges.received > 150_000

    with pytest.raises(ended):
        part.fetch([(0, 10), (40_000, 480_000)], cancelled=stop)
    again = PartialFile(hub.ranges(REPO, COMMIT, ranges.file), tmp_path / NAME)
    ((first, end),) = again.missing([(0, 480_000)])
    assert (first >= 150_000, end) == (True, 480_000)
    again.fetch([(0, 480_000)])
    assert again.ranges.received == 480_000 - first
    assert again.read(0, 480_000) == CONTENT[:480_000]
    assert package_spans.span_files(tmp_path / NAME)[1].read_bytes().count(b"first") == 1


def test_little_is_lost_when_the_program_is_killed(
    ranges: Ranges, local_hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_spans, "KEPT", 50_000)
    local_hub.faults.chunk = 10_000
    part = PartialFile(ranges, tmp_path / "a" / NAME)
    kept: list[Path] = []

    def look() -> bool:
        if ranges.received > 200_000 and not kept:
            kept.append(Path(shutil.copytree(tmp_path / "a", tmp_path / "killed")))
        return False

    part.fetch([(0, 400_000)], cancelled=look)
    assert part.read(0, 400_000) == CONTENT[:400_000]
    after = PartialFile(ranges, kept[0] / NAME)
    ((first, _),) = after.missing([(0, 400_000)])
    assert first >= 150_000
    assert after.read(0, first) == CONTENT[:first]


def test_an_index_that_cannot_be_true_is_not_used(ranges: Ranges, tmp_path: Path) -> None:
    part = PartialFile(ranges, tmp_path / NAME)
    part.fetch([(0, 1000)])
    data, index = package_spans.span_files(tmp_path / NAME)
    whole = index.read_bytes()
    for broken in (whole[:-3], whole.replace(b"1000", b"9999"), whole.replace(b"500000", b"600000"), b"[]"):
        index.write_bytes(broken)
        assert PartialFile(ranges, tmp_path / NAME).missing([(0, 10)]) == [(0, 10)]
    index.write_bytes(whole)
    data.write_bytes(data.read_bytes() + b"rest of a killed run")
    later = PartialFile(ranges, tmp_path / NAME)
    assert later.read(500, 1000) == CONTENT[500:1500]
    assert later.read(0, 1000) == CONTENT[:1000]


def test_a_head_without_end_is_given_up(
    ranges: Ranges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_spans, "MAX_HEAD_BYTES", 50_000)
    part = PartialFile(ranges, tmp_path / NAME)
    part.read(0, 40_000)
    with pytest.raises(DownloadFailed, match="head is longer"):
        part.read(40_000, 40_000)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=12), st.integers(0, 40))
def test_merged_spans_cover_the_same_and_nothing_far(spans: list[tuple[int, int]], gap: int) -> None:
    merged = package_spans._merged(spans, gap)
    wanted = {byte for first, end in spans for byte in range(first, end)}
    covered = {byte for first, end in merged for byte in range(first, end)}
    assert wanted <= covered
    assert all(b[0] - a[1] > gap for a, b in itertools.pairwise(merged))
    if gap == 0:
        assert covered == wanted
