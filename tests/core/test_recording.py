"""Recordings: what is read back, what is refused, and what a redacted one does not tell."""

import re
import time
from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec
import pytest

from meshllm_core.errors import ConfigError
from meshllm_core.ids import ModelId
from meshllm_core.state import events as ev
from meshllm_core.state import recording
from meshllm_core.state.recording import (
    EventHappened,
    Frame,
    Header,
    SnapshotTaken,
    decode_frame,
    encode,
    index_lines,
)
from meshllm_core.state.redaction import Redactor
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot
from tests.tui.mesh_samples import OWN, TOKEN, meshed
from tests.tui.request_samples import finished, started
from tests.tui.samples import SMALL, START, serving

HEADER = Header(meshllm_recording=1, version="0.1.0", at=START)


def lines(*frames: Header | Frame) -> list[bytes]:
    return [encode(frame) for frame in frames]


def frames_of(snapshot: NodeSnapshot, happened: Sequence[ev.AnyEvent], first: float = 0.0) -> list[Frame]:
    made: list[Frame] = [SnapshotTaken(after=first, snapshot=snapshot)]
    for number, event in enumerate(happened, start=1):
        made.append(EventHappened(after=first + number, sequence=snapshot.sequence + number, event=event))
    return made


def test_lines_read_back_as_they_were_written() -> None:
    frames = frames_of(meshed(), [started("a", 1), finished("a", 3)])
    raw = lines(HEADER, *frames)
    index = index_lines(raw)
    assert (index.header, index.events, index.seconds, index.cut) == (HEADER, 2, 2.0, False)
    whole = b"".join(raw)
    read = [
        decode_frame(whole[offset : offset + length], 2)
        for offset, length in zip(index.offsets, index.lengths, strict=True)
    ]
    assert read == frames
    assert [index.at(seconds) for seconds in (-1.0, 0.0, 0.5, 1.0, 99.0)] == [0, 1, 1, 2, 3]


def test_a_snapshot_may_stand_where_events_were_missed() -> None:
    first, later = frames_of(serving(), [started("a", 1)]), frames_of(meshed(), [started("b", 2)], 5.0)
    assert index_lines(lines(HEADER, *first, *later)).events == 2


def test_a_last_line_without_an_end_is_left_out() -> None:
    raw = lines(HEADER, *frames_of(serving(), [started("a", 1)]))
    index = index_lines([*raw[:-1], raw[-1][:-5]])
    assert (index.events, index.cut) == (0, True)


BASE = frames_of(NodeSnapshot(), [started("a", 1)])
BAD: dict[str, tuple[Iterable[bytes], str]] = {
    "empty": ([], "empty"),
    "no header": (lines(*BASE), "line 1 is no header"),
    "other json": ([b"[1]\n"], "line 1 is no header"),
    "not json": ([b"\x89PNG\r\n", b"\x00"], "line 1 is no header"),
    "not utf-8": ([b'{"meshllm_recording": 1, "version": "\xff", "at": 1}\n'], "line 1 is no header"),
    "newer": (lines(msgspec.structs.replace(HEADER, meshllm_recording=2)), "format 2"),
    "only a header": (lines(HEADER), "line 2 is missing"),
    "no snapshot": (lines(HEADER, BASE[1]), "line 2: an event stands before"),
    "broken line": ([*lines(HEADER, BASE[0]), b'{"kind": "event"}\n'], "line 3 is no event"),
    "unknown event": ([*lines(HEADER, BASE[0]), encode(BASE[1]).replace(b"request_started", b"x")], "line 3"),
    "a gap": (lines(HEADER, BASE[0], EventHappened(after=1, sequence=9, event=started("a", 1))), "line 3"),
    "twice": (lines(HEADER, *BASE, BASE[1]), "line 4: event 1 does not follow 1"),
    "back in time": (lines(HEADER, *frames_of(NodeSnapshot(), [], 5.0), BASE[1]), "line 3: its time"),
    "no time": ([*lines(HEADER), encode(BASE[0]).replace(b'"after":0.0', b'"after":null')], "line 2"),
    "endless line": ([*lines(HEADER), b"x" * recording.LINE_LIMIT], "line 2 is longer than 32 MiB"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_with_its_line(name: str) -> None:
    given, words = BAD[name]
    with pytest.raises(ConfigError, match=re.escape(words)):
        index_lines(given)


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = lines(HEADER, *frames_of(NodeSnapshot(), [started(str(number), 1) for number in range(20)]))
    monkeypatch.setattr(recording, "FRAMES_LIMIT", 10)
    with pytest.raises(ConfigError, match="line 12: there are more than 10 lines"):
        index_lines(raw)
    monkeypatch.undo()
    monkeypatch.setattr(recording, "FILE_LIMIT", 1000)
    with pytest.raises(ConfigError, match="the file is larger"):
        index_lines(raw)


def test_no_event_can_carry_an_invite() -> None:
    """Events are a closed set: a token is in none of their fields, nor in a mesh's snapshot with invites."""
    fields = {name for kind in get_args(ev.AnyEvent) for name in kind.__struct_fields__}
    counted = ("_tokens", "_tokens_per_second", "_per_token", "first_token_ms")
    assert not {name for name in fields if re.search("token|secret", name) and not name.endswith(counted)}
    assert TOKEN.encode() not in msgspec.json.encode(meshed())


def redacted(*frames: Frame) -> tuple[str, list[Frame]]:
    redactor = Redactor(b"s" * 32)
    made = [redactor.frame(frame) for frame in frames]
    return b"".join(map(encode, made)).decode(), made


PRIVATE = (
    "workshop",
    "attic",
    "cellar",
    "192.168.1.20",
    "192.168.1.30",
    "fd00::20",
    "10.8.0.2",
    OWN,
    OWN[:10],
)


def test_a_redacted_recording_names_nobody() -> None:
    snapshot = meshed()
    plain = encode(SnapshotTaken(after=0, snapshot=snapshot)).decode()
    notices = [
        "attic (192.168.1.30:9440) does not answer, fd00::20 neither",
        "Cannot read /mnt/secret-project/x.gguf, ~/secret-project/y and '/secret-project/z'.",
        f"node {OWN[:10]} in {'/home'}/maria/models and C:\\Users\\maria\\x",
    ]
    happened: list[ev.AnyEvent] = [
        *(ev.NoticeLogged(at=START, level="info", source="mesh", text=text) for text in notices),
        ev.ModelLoadProgressed(at=START, model=SMALL, fraction=0.1, path="/srv/maria/SmolLM2.gguf"),
        started("a1b2", 3, served_by="attic", asked_by="cellar"),
    ]
    text, made = redacted(*frames_of(snapshot, happened))
    for word in (*PRIVATE, "maria", "/srv", "secret-project"):
        assert word.lower() not in text.lower(), word
    assert "workshop" in plain and OWN in plain, "the sample must hold what is looked for"
    assert index_lines(lines(HEADER, *made)).events == len(happened)


def test_replacements_are_the_same_everywhere_and_not_guessable() -> None:
    snapshot = meshed()
    _, (first, *_) = redacted(*frames_of(snapshot, []))
    assert isinstance(first, SnapshotTaken)
    names = [row.name for row in first.snapshot.peers]
    assert len(set(names)) == len({row.name for row in snapshot.peers})
    assert all(re.fullmatch(r"machine-\d+", name) for name in names)
    redactor = Redactor(b"s" * 32)
    full, short = redactor.sentence(OWN), redactor.sentence(OWN[:10])
    assert full.startswith(short) and len(full) == 64 and full != OWN
    assert Redactor(b"t" * 32).sentence(OWN) != full
    assert redactor.sentence("10.0.0.5 10.0.0.5:9440") == f"{redactor.sentence('10.0.0.5')} " + (
        f"{redactor.sentence('10.0.0.5')}:9440"
    )


def test_what_a_bug_report_needs_stays() -> None:
    snapshot = serving()
    _, (first, *_) = redacted(*frames_of(snapshot, []))
    assert isinstance(first, SnapshotTaken)
    kept = first.snapshot
    assert [model.id for model in kept.models] == [model.id for model in snapshot.models]
    assert (kept.cpu, kept.version, kept.node_state) == (snapshot.cpu, snapshot.version, snapshot.node_state)
    assert kept.api_url == "http://127.0.0.1:9337"
    assert Redactor(b"s").sentence("12:34:56 took 12345678 ms, stage 3 of 30") == (
        "12:34:56 took 12345678 ms, stage 3 of 30"
    )


@pytest.mark.parametrize(
    "text",
    [
        "/v1/chat/completions",
        "http://127.0.0.1:9337/v1/models",
        "unsloth/Qwen3-4B-GGUF:Q4_K_M",
        "12/30 layers, a/b",
    ],
)
def test_routes_and_repositories_are_no_folders(text: str) -> None:
    assert Redactor(b"s").sentence(text) == text


def test_redacted_events_still_fold_to_the_redacted_snapshot() -> None:
    """States and kinds are untouched, so that a replay shows the same screens with other names."""
    snapshot, redactor = meshed(), Redactor(b"s" * 32)
    state: NodeSnapshot | None = None
    for frame in frames_of(snapshot, [started("a", 3), finished("a", 5)]):
        changed = redactor.frame(frame)
        if isinstance(changed, SnapshotTaken):
            state = changed.snapshot
        else:
            assert state is not None
            state = reduce(state, changed.event)
    assert state is not None
    assert state.requests[-1].status == "stop"
    assert [row.status for row in state.peers] == [row.status for row in snapshot.peers]


def test_a_name_that_is_a_common_word_does_not_break_the_recording() -> None:
    """`alive`, `quic` and `host` are values of closed sets, and stay so when somebody names a machine so."""
    peers = tuple(
        msgspec.structs.replace(row, name=name)
        for row, name in zip(meshed().peers, ("alive", "quic", "host"), strict=False)
    )
    snapshot = msgspec.structs.replace(meshed(), name=".*|(", peers=peers)
    _, made = redacted(*frames_of(snapshot, []))
    (raw,) = lines(*made)
    assert decode_frame(raw, 2) == made[0]


def test_many_names_are_redacted_in_bounded_time() -> None:
    redactor = Redactor(b"s" * 32)
    begun = time.perf_counter()
    for number in range(300):
        event = started(f"r{number}", 1, ModelId("m"), served_by=f"host-{number}")
        redactor.frame(EventHappened(after=0, sequence=1, event=event))
    assert time.perf_counter() - begun < 10.0
