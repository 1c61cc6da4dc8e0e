"""All models that a request may name, each once, with who holds it. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from meshllm_core.discovery.text import clean_text
from meshllm_core.engine.types import ModelFacts
from meshllm_core.serve.peers import Replica
from meshllm_core.serve.router import HostedModel
from meshllm_core.serve.served import ServedBy
from meshllm_core.wire import limits

Status = Literal["ready", "loading", "failed"]
_ORDER: tuple[Status, ...] = ("ready", "loading", "failed")


@dataclass(frozen=True)
class Holder:
    """A node that has a model."""

    node: ServedBy
    status: Status


@dataclass(frozen=True)
class ListedModel:
    """A model of the mesh."""

    id: str
    created: int
    """Seconds since the epoch."""
    detail: str
    """Why this node's own is not ready, where no other helps out."""
    holders: tuple[Holder, ...]
    """This node first, the others by name."""
    facts: ModelFacts | None
    """Where an engine told them."""
    replica: Replica | None
    """Another node's word, where this one has no engine of it."""

    @property
    def status(self) -> Status:
        """The best that any node has."""
        return min((holder.status for holder in self.holders), key=_ORDER.index)


def catalogue(
    hosted: Sequence[HostedModel],
    replicas: Iterable[Replica],
    *,
    here: ServedBy,
    created: int,
    known: Callable[[Replica], ModelFacts | None],
) -> list[ListedModel]:
    """This node's own in their order, then the others by name; `known` tells a replica's fetched facts."""
    elsewhere: dict[str, list[Replica]] = {}
    for replica in sorted(replicas, key=lambda r: (r.offer.name, r.name, r.node)):
        elsewhere.setdefault(replica.offer.name, []).append(replica)
    own = [_listed(model, elsewhere.pop(model.id, []), here, known) for model in hosted]
    others = [
        ListedModel(name, created, "", tuple(map(_holder, same)), _first(known, same), same[0])
        for name, same in elsewhere.items()
    ]
    return own + others


def _listed(
    model: HostedModel,
    same: Sequence[Replica],
    here: ServedBy,
    known: Callable[[Replica], ModelFacts | None],
) -> ListedModel:
    holders = (Holder(here, model.status), *map(_holder, same))
    facts = model.engine.facts if model.engine is not None else _first(known, same)
    helped = any(holder.status == "ready" for holder in holders)
    return ListedModel(
        model.id, model.created, "" if helped else model.detail, holders, facts, same[0] if same else None
    )


def _holder(replica: Replica) -> Holder:
    name = clean_text(replica.name, limits.NAME)
    return Holder(ServedBy.named(name, replica.node, hops=1), replica.offer.status)


def _first(known: Callable[[Replica], ModelFacts | None], same: Sequence[Replica]) -> ModelFacts | None:
    return next((facts for replica in same if (facts := known(replica)) is not None), None)
