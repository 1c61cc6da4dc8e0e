"""Which model answers a request, and why not. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from meshllm_core.engine.base import StageEngine
from meshllm_core.engine.types import ModelFacts
from meshllm_core.errors import ModelNotReady, ModelUnknown
from meshllm_core.ids import ModelId

AUTO = "auto"
"""As `model` of a request: whichever model is ready, the largest first."""


@dataclass(frozen=True)
class HostedModel:
    """A model that this node serves or is about to serve."""

    id: ModelId
    created: int
    """Seconds since the epoch."""
    status: Literal["loading", "ready", "failed"]
    engine: StageEngine | None = None
    """Present when `status` is ready."""
    detail: str = ""
    """Why it is not ready, for a person."""


def choose(
    hosted: Mapping[ModelId, HostedModel], name: str, able: Callable[[ModelFacts], bool] = lambda _: True
) -> tuple[HostedModel, StageEngine]:
    """The model that `name` means. Raises ModelUnknown or ModelNotReady.

    `auto` is one that is `able` to do what is asked, if any is; else one that is ready, to be told of.
    """
    if name == AUTO:
        ready = [m for m in hosted.values() if m.engine is not None]
        if fitting := [m for m in ready if m.engine and able(m.engine.facts)]:
            return _ready(max(fitting, key=lambda m: m.engine.facts.parameters if m.engine else 0))
        for status in ("loading", "ready", "failed"):
            waiting = next((m for m in hosted.values() if m.status == status), None)
            if waiting:
                return _ready(waiting)
        raise ModelUnknown(
            "No model is loaded on this node.", hint="Load one with `meshllm load MODEL`.", param="model"
        )
    found = hosted.get(ModelId(name))
    if found is None:
        raise unknown(name, hosted.values())
    return _ready(found)


def unknown(name: str, hosted: Iterable[HostedModel]) -> ModelUnknown:
    """The refusal of a name; a model that failed is no way out, so it is not offered."""
    names = ", ".join(sorted(model.id for model in hosted if model.status != "failed"))
    served = f"Served: {names}." if names else "No model is served; load one with `meshllm load MODEL`."
    return ModelUnknown(f"No model named {name[:200]!r} is served here.", hint=served, param="model")


def _ready(model: HostedModel) -> tuple[HostedModel, StageEngine]:
    if model.engine is not None and model.status == "ready":
        return model, model.engine
    if model.status == "failed":
        raise ModelNotReady(
            f"The model {model.id} failed: {model.detail}",
            hint="See `meshllm status`, then `meshllm load` it again.",
            retry_after=30,
        )
    raise ModelNotReady(
        f"The model {model.id} is still loading{': ' + model.detail if model.detail else ''}.",
        hint="Try again in a few seconds.",
    )
