"""The part of the fold that is about measurements of codecs."""

from typing import assert_never

import msgspec

from meshllm_core.state import certify_events as ev
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.snapshot import NodeSnapshot

replace = msgspec.structs.replace
CODECS_SHOWN = 16
CUTS_SHOWN = 64

CertifyEvent = ev.CertificationStarted | ev.CertificationProgressed | ev.CertificationEnded


def fold_certify(snapshot: NodeSnapshot, event: CertifyEvent) -> NodeSnapshot:
    """The snapshot after an event about a measurement, without its notice."""
    view = snapshot.certification
    match event:
        case ev.CertificationStarted():
            started = ev.CertificationView(
                model=event.model,
                cuts=event.cuts[:CUTS_SHOWN],
                codecs=event.codecs[:CODECS_SHOWN],
                started_at=event.at,
            )
            return replace(snapshot, certification=started)
        case _ if view is None or view.state != "running":
            return snapshot
        case ev.CertificationProgressed():
            going = replace(view, phase=event.phase, done=event.done, total=event.total)
            return replace(snapshot, certification=going)
        case ev.CertificationEnded():
            ended = replace(
                view,
                state=event.outcome,
                ended_at=event.at,
                verdicts=event.verdicts[:CODECS_SHOWN],
                message=event.message,
                hint=event.hint,
            )
            return replace(snapshot, certification=ended)
        case _:
            assert_never(event)


def certify_words(event: CertifyEvent) -> tuple[NoticeLevel, str, str] | None:
    """(level, source, text) of what a person should read in the log about `event`."""
    match event:
        case ev.CertificationStarted(model=model):
            return "info", "certify", f"measuring the codecs of {model} began"
        case ev.CertificationEnded(outcome="done", verdicts=verdicts):
            found = ", ".join(f"{one.codec} {one.verdict}" for one in verdicts[:CODECS_SHOWN])
            return "info", "certify", f"measured and signed: {found}"
        case ev.CertificationEnded(outcome="cancelled"):
            return "info", "certify", "the measurement was cancelled"
        case ev.CertificationEnded(message=message, hint=hint):
            return "error", "certify", f"{message} {hint}".strip()
    return None
