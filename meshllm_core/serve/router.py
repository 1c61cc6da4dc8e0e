"""Which model a request means, where it is, and why not. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from meshllm_core.engine.base import StageEngine
from meshllm_core.errors import MeshError, ModelNotReady, ModelUnknown
from meshllm_core.ids import ModelId
from meshllm_core.serve.peers import Replica

AUTO = "auto"
"""As `model` of a request: whichever model is ready, the largest first."""
NAMES_SHOWN = 40

Need = Literal["any", "text", "embeddings"]
"""What `auto` must be able to do."""


HostedStatus = Literal["loading", "ready", "failed"]


@dataclass(frozen=True)
class HostedModel:
    """A model that this node serves or is about to serve."""

    id: ModelId
    created: int
    """Seconds since the epoch."""
    status: HostedStatus
    engine: StageEngine | None = None
    """Present when `status` is ready."""
    detail: str = ""
    """Why it is not ready, for a person."""


@dataclass(frozen=True)
class Choice:
    """A model that can be asked: here, on other nodes, or both."""

    name: ModelId
    local: HostedModel | None
    """Ready, where it is here."""
    replicas: tuple[Replica, ...]
    """Ready ones on other nodes."""


def choose(
    hosted: Mapping[ModelId, HostedModel],
    name: str,
    need: Need = "any",
    replicas: Sequence[Replica] = (),
) -> Choice:
    """The model that `name` means. Raises ModelUnknown or ModelNotReady.

    `auto` is the largest that can do what is needed, this node's own among equals; if none can, one that
    is ready, to be told of.
    """
    if name == AUTO:
        return _auto(hosted, need, replicas)
    return _named(hosted, name, replicas)


def _named(hosted: Mapping[ModelId, HostedModel], name: str, replicas: Sequence[Replica]) -> Choice:
    local = hosted.get(ModelId(name))
    same = [replica for replica in replicas if replica.offer.name == name]
    if local is None and not same:
        raise unknown(name, [m.id for m in hosted.values() if m.status != "failed"], replicas)
    return _ready(ModelId(name), local, same)


def _auto(hosted: Mapping[ModelId, HostedModel], need: Need, replicas: Sequence[Replica]) -> Choice:
    sizes = [
        (local.engine.facts.parameters, True, local.id)
        for local in hosted.values()
        if local.engine is not None and _can(need, local.engine.facts.embeddings)
    ] + [
        (replica.offer.parameters, False, ModelId(replica.offer.name))
        for replica in replicas
        if replica.offer.status == "ready" and _can(need, replica.offer.embeddings)
    ]
    if sizes:
        largest = max(sizes, key=lambda item: item[:2])[2]
        return _named(hosted, largest, replicas)
    names = [
        *(m.id for m in hosted.values() if m.status == "loading"),
        *(ModelId(r.offer.name) for r in replicas if r.offer.status == "loading"),
        *(m.id for m in hosted.values() if m.status == "ready"),
        *(ModelId(r.offer.name) for r in replicas),
        *(m.id for m in hosted.values()),
    ]
    if not names:
        raise ModelUnknown(
            "No model is loaded on this node.", hint="Load one with `meshllm load MODEL`.", param="model"
        )
    return _named(hosted, names[0], replicas)


def _can(need: Need, embeddings: bool) -> bool:
    return need == "any" or embeddings == (need == "embeddings")


def unknown(name: str, own: Iterable[str], replicas: Sequence[Replica] = ()) -> ModelUnknown:
    """The refusal of a name, with those that are served: of this node and of the mesh."""
    names = sorted({*own, *(replica.offer.name for replica in replicas)})
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    served = f"Served: {', '.join(names[:NAMES_SHOWN])}{more}."
    where = "in this mesh" if replicas else "here"
    return ModelUnknown(
        f"No model named {name[:200]!r} is served {where}.",
        hint=served if names else "No model is served; load one with `meshllm load MODEL`.",
        param="model",
    )


def _ready(name: ModelId, local: HostedModel | None, same: Sequence[Replica]) -> Choice:
    ready = tuple(replica for replica in same if replica.offer.status == "ready")
    here = local if local is not None and local.engine is not None and local.status == "ready" else None
    if here is None and not ready:
        raise not_ready(local) if local is not None else _loading_elsewhere(name, same)
    return Choice(name, here, ready)


def not_ready(model: HostedModel) -> MeshError:
    """The refusal of a model of this node that is not ready."""
    if model.status == "failed":
        return ModelNotReady(
            f"The model {model.id} failed: {model.detail}",
            hint="See `meshllm status`, then `meshllm load` it again.",
            retry_after=30,
        )
    detail = model.detail.rstrip(".")
    return ModelNotReady(
        f"The model {model.id} is still loading{': ' + detail if detail else ''}.",
        hint="Try again in a few seconds.",
    )


def _loading_elsewhere(name: str, same: Sequence[Replica]) -> ModelNotReady:
    nodes = ", ".join(sorted({replica.name for replica in same})[:4])
    return ModelNotReady(f"The model {name} is still loading on {nodes}.", hint="Try again in a few seconds.")
