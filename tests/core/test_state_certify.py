"""The fold of a measurement of codecs: its progress, its end, and what comes too late."""

from meshllm_core.state import certify_events as ev
from meshllm_core.state.reduce import reduce
from meshllm_core.state.snapshot import NodeSnapshot

STARTED = ev.CertificationStarted(at=10.0, model="small", cuts=(15,), codecs=("q8", "q8x"))
GOING = ev.CertificationProgressed(at=11.0, phase="measuring", done=64, total=2240)
DONE = ev.CertificationEnded(
    at=12.0, outcome="done", verdicts=(ev.CodecVerdict(codec="q8", verdict="rejected"),)
)


def test_from_start_to_end() -> None:
    snapshot = reduce(NodeSnapshot(), STARTED)
    view = snapshot.certification
    assert view is not None
    assert (view.state, view.phase, view.model, view.cuts) == ("running", "hashing", "small", (15,))
    snapshot = reduce(snapshot, GOING)
    assert snapshot.certification is not None
    assert (snapshot.certification.phase, snapshot.certification.done) == ("measuring", 64)
    assert len(snapshot.notices) == 1, "progress is not for the log"
    snapshot = reduce(snapshot, DONE)
    assert snapshot.certification is not None
    assert (snapshot.certification.state, snapshot.certification.ended_at) == ("done", 12.0)
    assert snapshot.notices[-1].text == "measured and signed: q8 rejected"


def test_what_comes_after_the_end_changes_nothing() -> None:
    ended = reduce(reduce(NodeSnapshot(), STARTED), ev.CertificationEnded(at=12.0, outcome="cancelled"))
    assert reduce(ended, GOING).certification == ended.certification
    assert reduce(ended, DONE).certification == ended.certification
    assert reduce(NodeSnapshot(), GOING).certification is None


def test_lists_are_bounded() -> None:
    many = ev.CertificationStarted(at=1.0, model="x", cuts=tuple(range(1, 500)), codecs=("q8",) * 99)
    view = reduce(NodeSnapshot(), many).certification
    assert view is not None
    assert (len(view.cuts), len(view.codecs)) == (64, 16)


def test_a_failure_says_why() -> None:
    failed = ev.CertificationEnded(at=2.0, outcome="failed", message="It broke.", hint="Mend it.")
    notice = reduce(reduce(NodeSnapshot(), STARTED), failed).notices[-1]
    assert (notice.level, notice.text) == ("error", "It broke. Mend it.")
