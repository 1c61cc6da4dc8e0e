"""Downloads in the snapshot: rows in order, bounded, and what the log says of them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.state import events as ev
from meshllm_core.state.download_events import DownloadRow, DownloadState
from meshllm_core.state.reduce import reduce
from meshllm_core.state.reduce_downloads import DOWNLOADS_SHOWN
from meshllm_core.state.snapshot import NodeSnapshot

STATES: tuple[DownloadState, ...] = ("waiting", "downloading", "stopping", "paused", "failed", "done")
ROWS = st.builds(
    DownloadRow,
    id=st.integers(0, 60).map(str),
    ref=st.text(max_size=8),
    state=st.sampled_from(STATES),
    since=st.floats(0, 4e9),
    bytes_done=st.integers(0, 1 << 40),
    bytes_total=st.integers(0, 1 << 40),
)
EVENTS = st.one_of(
    st.builds(ev.DownloadChanged, at=st.floats(0, 4e9), download=ROWS),
    st.builds(
        ev.DownloadRemoved,
        at=st.floats(0, 4e9),
        id=st.integers(0, 60).map(str),
        reason=st.sampled_from(["", "cancelled"]),
    ),
)


def fold(*history: ev.AnyEvent) -> NodeSnapshot:
    """The snapshot after some events."""
    snapshot = NodeSnapshot()
    for event in history:
        snapshot = reduce(snapshot, event)
    return snapshot


def changed(state: DownloadState, **more: object) -> ev.DownloadChanged:
    """A download `a` in some state."""
    row = DownloadRow(id="a", ref="owner/repo:Q4_K_M", state=state, since=1.0)
    return ev.DownloadChanged(at=1.0, download=msgspec.structs.replace(row, **more))


@given(st.lists(EVENTS, max_size=100))
def test_rows_are_unique_bounded_and_survive_json(history: list[ev.AnyEvent]) -> None:
    snapshot = fold(*history)
    ids = [row.id for row in snapshot.downloads]
    assert len(ids) == len(set(ids)) <= DOWNLOADS_SHOWN
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=NodeSnapshot) == snapshot
    logged = [ev.LoggedEvent(sequence=n, event=event) for n, event in enumerate(history)]
    assert msgspec.json.decode(msgspec.json.encode(logged), type=list[ev.LoggedEvent]) == logged


def test_a_row_keeps_its_place_and_goes_when_it_is_removed() -> None:
    other = DownloadRow(id="b", ref="x/y", state="waiting", since=1.0)
    snapshot = fold(
        changed("downloading"), ev.DownloadChanged(at=1.0, download=other), changed("paused", bytes_done=5)
    )
    assert [(row.id, row.state, row.bytes_done) for row in snapshot.downloads] == [
        ("a", "paused", 5),
        ("b", "waiting", 0),
    ]
    gone = reduce(snapshot, ev.DownloadRemoved(at=2.0, id="a", reason="the download was cancelled"))
    assert [row.id for row in gone.downloads] == ["b"]
    assert gone.notices[-1].text == "the download was cancelled"


def test_the_log_tells_ends_once_and_no_progress() -> None:
    snapshot = fold(
        changed("downloading"),
        changed("downloading", bytes_done=7),
        changed("failed", message="The hub cannot be reached.", hint="Check the network."),
        changed("failed", message="The hub cannot be reached.", hint="Check the network."),
        changed("done", model="repo-Q4_K_M"),
    )
    assert [(notice.level, notice.source) for notice in snapshot.notices] == [
        ("error", "owner/repo:Q4_K_M"),
        ("info", "repo-Q4_K_M"),
    ]
    assert "The hub cannot be reached. Check the network." in snapshot.notices[0].text
