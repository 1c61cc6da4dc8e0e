"""The part of the fold that is about models that are split over machines."""

from typing import assert_never

import msgspec

from meshllm_core.state import split_events as ev
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, SplitView

replace = msgspec.structs.replace
HOSTED_SHOWN = 64

SplitEvent = ev.SplitPlanned | ev.SplitInterrupted | ev.StageUpdated | ev.StageHosted | ev.StageReleased


def fold_split(snapshot: NodeSnapshot, event: SplitEvent) -> NodeSnapshot:
    """The snapshot after an event about a split, without its notice."""
    match event:
        case ev.SplitPlanned():
            fields = {name: getattr(event, name) for name in SplitView.__struct_fields__}
            view = SplitView(**fields)
            models = tuple(
                replace(model, split=view, error="") if model.id == event.model else model
                for model in snapshot.models
            )
            return replace(snapshot, models=models)
        case ev.SplitInterrupted():
            models = tuple(
                _interrupted(model, event.reason) if model.id == event.model else model
                for model in snapshot.models
            )
            return replace(snapshot, models=models)
        case ev.StageUpdated():
            models = tuple(
                _with_stage(model, event) if model.id == event.model else model for model in snapshot.models
            )
            return replace(snapshot, models=models)
        case ev.StageHosted():
            others = tuple(row for row in snapshot.hosted_stages if row.run != event.stage.run)
            return replace(snapshot, hosted_stages=(*others, event.stage)[-HOSTED_SHOWN:])
        case ev.StageReleased():
            kept = tuple(row for row in snapshot.hosted_stages if row.run != event.run)
            return replace(snapshot, hosted_stages=kept)
        case _:
            assert_never(event)


def _interrupted(model: ModelView, reason: str) -> ModelView:
    """No more ready, if it was: nothing is answered until it is spread again."""
    status = "restarting" if model.status == "ready" else model.status
    quiet = {"pid": 0, "active": 0, "queued": 0, "in_flight": 0}
    still = {"decode_tokens_per_second": 0.0, "prompt_tokens_per_second": 0.0}
    return replace(model, status=status, error=reason, **quiet, **still)


def _with_stage(model: ModelView, event: ev.StageUpdated) -> ModelView:
    split = model.split
    if split is None or split.run != event.run:
        return model
    stages = tuple(event.stage if row.index == event.stage.index else row for row in split.stages)
    return replace(model, split=replace(split, stages=stages))


def split_words(snapshot: NodeSnapshot, event: SplitEvent) -> tuple[NoticeLevel, str, str] | None:
    """(level, source, text) of what a person should read in the log about `event`."""
    match event:
        case ev.SplitPlanned(model=model, sentence=sentence):
            return "info", str(model), sentence
        case ev.SplitInterrupted(model=model, reason=reason):
            return "warning", str(model), reason
        case ev.StageUpdated(model=model, stage=row) if row.state == "failed":
            return "error", str(model), f"stage {row.index} on {row.node_name} failed: {row.detail}"
        case ev.StageHosted(stage=stage) if stage.state in ("ready", "failed"):
            what = f"layers {stage.start} to {stage.end - 1} of {stage.model} for {stage.coordinator}"
            words = f"{what}: {stage.state}. {stage.detail}".strip()
            return ("error" if stage.state == "failed" else "info"), "stages", words
        case ev.StageReleased(reason=reason):
            return "info", "stages", f"a stage was released: {reason}"
    return None
