"""The fold from events to the snapshot: what holds after any sequence of events."""

from collections.abc import Sequence
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state import events as ev
from meshllm_core.state.mesh_events import PeerRow, PeerUpdated
from meshllm_core.state.reduce import reduce
from meshllm_core.state.reduce_certify import CertifyEvent
from meshllm_core.state.reduce_downloads import DownloadEvent
from meshllm_core.state.reduce_mesh import PEERS_SHOWN, MeshEvent
from meshllm_core.state.reduce_split import SplitEvent
from meshllm_core.state.snapshot import NOTICES_KEPT, REQUESTS_KEPT, NodeSnapshot

MODELS = st.sampled_from([ModelId("a"), ModelId("b"), ModelId("c")])
REQUESTS = st.sampled_from([RequestId(f"r{n}") for n in range(4)])
COUNT = st.integers(0, 1 << 40)
SPEED = st.floats(0, 1e4)
TEXT = st.text(max_size=20)
AT = st.floats(0, 4e9)

EVENTS: dict[type[ev.Event], st.SearchStrategy[ev.AnyEvent]] = {
    ev.NodeStarted: st.builds(
        ev.NodeStarted, at=AT.filter(bool), name=TEXT, version=TEXT, pid=COUNT, api_url=TEXT, console_url=TEXT
    ),
    ev.NodeStopping: st.builds(ev.NodeStopping, at=AT, reason=TEXT),
    ev.HardwareDetected: st.builds(
        ev.HardwareDetected,
        at=AT,
        cpu=TEXT,
        threads=COUNT,
        memory_total=COUNT,
        memory_free=COUNT,
        devices=st.just(()),
    ),
    ev.MemoryMeasured: st.builds(ev.MemoryMeasured, at=AT, memory_free=COUNT, memory_lent=COUNT),
    ev.ModelRequested: st.builds(ev.ModelRequested, at=AT, model=MODELS, ref=TEXT),
    ev.ModelNamed: st.builds(ev.ModelNamed, at=AT, model=MODELS, name=MODELS),
    ev.ModelDownloadProgressed: st.builds(
        ev.ModelDownloadProgressed, at=AT, model=MODELS, bytes_done=COUNT, bytes_total=COUNT
    ),
    ev.ModelLoadProgressed: st.builds(
        ev.ModelLoadProgressed, at=AT, model=MODELS, fraction=st.floats(0, 1), path=TEXT
    ),
    ev.ModelReady: st.builds(
        ev.ModelReady,
        at=AT,
        model=MODELS,
        pid=COUNT,
        architecture=TEXT,
        parameters=COUNT,
        context=COUNT,
        lanes=COUNT,
        memory_measured=COUNT,
        device=TEXT,
        chat=st.booleans(),
        embeddings=st.booleans(),
        load_seconds=SPEED,
        layers=COUNT,
    ),
    ev.ModelFailed: st.builds(ev.ModelFailed, at=AT, model=MODELS, code=TEXT, message=TEXT, hint=TEXT),
    ev.ModelUnloaded: st.builds(ev.ModelUnloaded, at=AT, model=MODELS),
    ev.EngineExited: st.builds(
        ev.EngineExited,
        at=AT,
        model=MODELS,
        reason=st.sampled_from(["signal", "out_of_memory", "bad_file", "exit"]),
        detail=TEXT,
        log_tail=st.just(("x",)),
        restarting=st.booleans(),
    ),
    ev.RequestStarted: st.builds(
        ev.RequestStarted, at=AT, request=REQUESTS, model=MODELS, route=TEXT, prompt_tokens=COUNT
    ),
    ev.RequestFinished: st.builds(
        ev.RequestFinished,
        at=AT,
        request=REQUESTS,
        model=MODELS,
        reason=st.sampled_from(["stop", "length", "cancelled", "error"]),
        prompt_tokens=COUNT,
        cached_tokens=COUNT,
        completion_tokens=COUNT,
        queue_ms=SPEED,
        first_token_ms=SPEED,
        total_ms=SPEED,
        decode_tokens_per_second=SPEED,
    ),
    ev.ThroughputMeasured: st.builds(
        ev.ThroughputMeasured,
        at=AT,
        model=MODELS,
        decode_tokens_per_second=SPEED,
        prompt_tokens_per_second=SPEED,
        active=COUNT,
        queued=COUNT,
        cells_used=COUNT,
        cells_total=COUNT,
    ),
    ev.NoticeLogged: st.builds(
        ev.NoticeLogged, at=AT, level=st.sampled_from(["info", "warning", "error"]), source=TEXT, text=TEXT
    ),
}
st.register_type_strategy(float, SPEED)
st.register_type_strategy(int, COUNT)
EVENTS |= {
    kind: st.builds(
        kind,
        **{name: st.from_type(hint) for name, hint in get_type_hints(kind).items() if name != "at"},
        at=AT,
    )
    for kind in (
        *get_args(MeshEvent | DownloadEvent),
        *get_args(SplitEvent),
        *get_args(CertifyEvent),
        ev.PaceLearned,
    )
}
HISTORIES = st.lists(st.one_of(*EVENTS.values()), max_size=40)


def fold(events: Sequence[ev.AnyEvent], snapshot: NodeSnapshot | None = None) -> NodeSnapshot:
    snapshot = snapshot or NodeSnapshot()
    for event in events:
        snapshot = reduce(snapshot, event)
    return snapshot


def test_the_strategies_know_every_event() -> None:
    assert set(EVENTS) == set(get_args(ev.AnyEvent))


@given(HISTORIES)
def test_what_always_holds(history: list[ev.AnyEvent]) -> None:
    snapshot = fold(history)
    assert snapshot.sequence == len(history)
    ids = [view.id for view in snapshot.models]
    assert len(set(ids)) == len(ids)
    assert len(snapshot.notices) <= NOTICES_KEPT
    assert len(snapshot.requests) <= REQUESTS_KEPT
    ready = any(view.status == "ready" for view in snapshot.models)
    assert (snapshot.node_state == "serving") <= ready
    for view in snapshot.models:
        if view.status in ("failed", "restarting"):
            assert view.pid == 0


@given(HISTORIES)
def test_a_snapshot_and_its_events_survive_json(history: list[ev.AnyEvent]) -> None:
    snapshot = fold(history)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=NodeSnapshot) == snapshot
    logged = [ev.LoggedEvent(sequence=n, event=event) for n, event in enumerate(history)]
    assert msgspec.json.decode(msgspec.json.encode(logged), type=list[ev.LoggedEvent]) == logged


@given(HISTORIES, st.integers(0, 40))
def test_a_client_that_joins_later_sees_the_same(history: list[ev.AnyEvent], cut: int) -> None:
    assert fold(history[cut:], fold(history[:cut])) == fold(history)


@given(HISTORIES)
def test_events_never_change_an_earlier_snapshot(history: list[ev.AnyEvent]) -> None:
    before = fold(history)
    encoded = msgspec.json.encode(before)
    fold(history, before)
    assert msgspec.json.encode(before) == encoded


@given(HISTORIES, MODELS)
def test_unloading_removes_the_row_for_good(history: list[ev.AnyEvent], model: ModelId) -> None:
    snapshot = fold([*history, ev.ModelUnloaded(at=1.0, model=model)])
    assert snapshot.model(model) is None
    later = ev.ThroughputMeasured(
        at=2.0,
        model=model,
        decode_tokens_per_second=1.0,
        prompt_tokens_per_second=1.0,
        active=0,
        queued=0,
        cells_used=0,
        cells_total=0,
    )
    assert reduce(snapshot, later).model(model) is None


@given(HISTORIES, MODELS, MODELS)
def test_a_row_that_gets_its_name_goes_on_under_it(
    history: list[ev.AnyEvent], model: ModelId, name: ModelId
) -> None:
    before = fold([*history, ev.ModelRequested(at=1.0, model=model, ref="asked")])
    after = reduce(before, ev.ModelNamed(at=2.0, model=model, name=name))
    view = after.model(name)
    assert view is not None
    assert (view.ref, view.status) == ("asked", "requested")
    assert name == model or after.model(model) is None


def test_states_follow_the_life_of_a_model() -> None:
    model = ModelId("a")
    steps: list[tuple[ev.AnyEvent, str, str | None]] = [
        (
            ev.NodeStarted(at=1.0, name="n", version="1", pid=2, api_url="u", console_url="c"),
            "standby",
            None,
        ),
        (ev.ModelRequested(at=2.0, model=model, ref="default"), "loading", "requested"),
        (
            ev.ModelDownloadProgressed(at=3.0, model=model, bytes_done=1, bytes_total=2),
            "loading",
            "downloading",
        ),
        (
            ev.ModelLoadProgressed(at=4.0, model=model, fraction=0.5, path="/m", file_bytes=9),
            "loading",
            "loading",
        ),
        (ev.ModelLoadProgressed(at=4.5, model=model, fraction=0.9), "loading", "loading"),
        (_ready(model), "serving", "ready"),
        (_exited(model, restarting=True), "loading", "restarting"),
        (_ready(model), "serving", "ready"),
        (_exited(model, restarting=False), "standby", "failed"),
        (ev.NodeStopping(at=9.0, reason="x"), "stopping", "failed"),
        (_ready(model), "stopping", "ready"),
    ]
    snapshot = NodeSnapshot()
    for event, node_state, status in steps:
        snapshot = reduce(snapshot, event)
        view = snapshot.model(model)
        assert (snapshot.node_state, view.status if view else None) == (node_state, status), event
    view = snapshot.model(model)
    assert view is not None
    assert (view.path, view.file_bytes, view.restarts, view.error, view.layers) == ("/m", 9, 2, "", 30)


def test_the_oldest_notices_and_requests_go_first() -> None:
    notices = [ev.NoticeLogged(at=float(n), level="info", source="s", text=str(n)) for n in range(500)]
    kept = fold(notices).notices
    assert [notice.text for notice in kept] == [str(n) for n in range(500 - NOTICES_KEPT, 500)]
    requests = [
        ev.RequestStarted(at=1.0, request=RequestId(str(n)), model=ModelId("a"), route="/", prompt_tokens=1)
        for n in range(200)
    ]
    assert [view.id for view in fold(requests).requests] == [str(n) for n in range(200 - REQUESTS_KEPT, 200)]


def test_a_finished_request_keeps_its_figures() -> None:
    model, request = ModelId("a"), RequestId("r")
    snapshot = fold(
        [
            ev.ModelRequested(at=1.0, model=model, ref="a"),
            ev.RequestStarted(at=2.0, request=request, model=model, route="/v1", prompt_tokens=5),
            ev.RequestFinished(
                at=3.0,
                request=request,
                model=model,
                reason="length",
                prompt_tokens=5,
                cached_tokens=2,
                completion_tokens=7,
                queue_ms=1.0,
                first_token_ms=2.0,
                total_ms=3.0,
                decode_tokens_per_second=4.0,
            ),
        ]
    )
    (view,) = snapshot.requests
    assert (view.status, view.completion_tokens, view.cached_tokens) == ("length", 7, 2)
    served = snapshot.model(model)
    assert served is not None
    assert served.requests_served == 1


MEMBERS = st.builds(
    PeerRow,
    node=st.sampled_from("abcde"),
    name=st.sampled_from(("", "a", "B", "b", "ß", "SS", "z")),
    status=st.sampled_from(("alive", "suspect", "down", "left")),
    role=st.just("host"),
    since=SPEED,
    rtt_ms=SPEED,
)


@given(st.lists(MEMBERS, max_size=30))
def test_members_are_the_last_that_was_heard_of_each_by_name(rows: list[PeerRow]) -> None:
    snapshot = fold([PeerUpdated(at=1.0, peer=row) for row in rows])
    known = {row.node: row for row in rows}
    assert snapshot.peers == tuple(sorted(known.values(), key=lambda row: (row.name.casefold(), row.node)))


def test_members_beyond_the_list_do_not_fill_the_log() -> None:
    """There is no room for them, so that each time they are heard of would be the first."""
    rows = [
        PeerRow(node=f"{n:05}", name=f"m{n:05}", status="alive", role="host", since=1.0)
        for n in range(PEERS_SHOWN + 1)
    ]
    full = msgspec.structs.replace(NodeSnapshot(), peers=tuple(rows[:-1]))
    again = reduce(reduce(full, PeerUpdated(at=2.0, peer=rows[-1])), PeerUpdated(at=3.0, peer=rows[0]))
    assert (len(again.peers), again.notices) == (PEERS_SHOWN, ())
    gone = msgspec.structs.replace(rows[0], status="down")
    assert len(reduce(again, PeerUpdated(at=4.0, peer=gone)).notices) == 1


def test_an_unknown_event_type_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"sequence":1,"event":{"type":"peer_joined","at":1.0}}', type=ev.LoggedEvent)


def _ready(model: ModelId) -> ev.ModelReady:
    return ev.ModelReady(
        at=5.0,
        model=model,
        pid=3,
        architecture="llama",
        parameters=1,
        context=1,
        lanes=1,
        memory_measured=1,
        device="CPU",
        chat=True,
        embeddings=False,
        load_seconds=1.0,
        layers=30,
    )


def _exited(model: ModelId, *, restarting: bool) -> ev.EngineExited:
    return ev.EngineExited(
        at=6.0, model=model, reason="signal", detail="killed", log_tail=("bye",), restarting=restarting
    )
