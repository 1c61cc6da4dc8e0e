"""The models that the chat can ask: this node's own, then those of the members it has a link to.

No Textual here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import cells, fit, one_line
from meshllm_tui.mesh_words import name_of

OFFERED = 500
"""Models that are offered; a mesh may name many more."""
_HOLDERS = 3
_NAME_CELLS = 34


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that can chat now."""

    id: ModelId
    holders: tuple[str, ...] = ()
    """Names of the other members that answer with it."""
    here: bool = False
    """This node answers with it."""
    stages: int = 0
    """Into how many stages this node has split it; 0: not split, or not known."""

    @property
    def words(self) -> str:
        """Its name, and where it is when not here."""
        name = one_line(self.id, 80)
        return name if self.here else f"{name} on {self._others()}"

    @property
    def where(self) -> str:
        """Who holds it, in words."""
        parts = []
        if self.here:
            parts.append(f"here, {self.stages} stages" if self.stages else "here")
        if self.holders:
            parts.append(self._others())
        return " and ".join(parts)

    def _others(self) -> str:
        more = f" and {len(self.holders) - _HOLDERS} more" if len(self.holders) > _HOLDERS else ""
        return ", ".join(self.holders[:_HOLDERS]) + more


def chat_models(snapshot: NodeSnapshot | None) -> tuple[ChatModel, ...]:
    """Each name once; what this node has itself comes first."""
    if snapshot is None:
        return ()
    own = [model for model in snapshot.models if model.status == "ready" and model.chat]
    known = {str(model.id) for model in own}
    holders: dict[str, list[str]] = {}
    for row in snapshot.peers:
        if row.status != "alive" or not (row.path or row.address):
            continue
        for model in row.models:
            if model.status == "ready" and model.chat:
                full = len(holders) >= OFFERED + len(known)
                if full and model.id not in holders and model.id not in known:
                    continue
                holders.setdefault(model.id, []).append(name_of(row))
    others = [name for name in holders if name not in known][:OFFERED]
    return (
        *(
            ChatModel(
                model.id,
                tuple(holders.get(model.id, ())),
                here=True,
                stages=len(model.split.stages) if model.split else 0,
            )
            for model in own
        ),
        *(ChatModel(ModelId(name), tuple(holders[name])) for name in others),
    )


def model_choices(models: Sequence[ChatModel]) -> list[tuple[str, str]]:
    """Rows to choose from: name and holders in two columns."""
    names = [fit(model.id, _NAME_CELLS) for model in models]
    wide = max(map(cells, names), default=0)
    return [
        (str(model.id), f"{name}{' ' * (wide - cells(name) + 2)}{model.where}")
        for model, name in zip(models, names, strict=True)
    ]
