"""The models that the chat can ask: this node's own, then those of the members it has a link to.

No Textual here.
"""

from dataclasses import dataclass

from meshllm_core.ids import ModelId
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import one_line
from meshllm_tui.mesh_words import name_of

OFFERED = 500
"""Models that are offered; a mesh may name many more."""
_HOLDERS = 3


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that can chat now."""

    id: ModelId
    holders: tuple[str, ...] = ()
    """Names of the members that answer with it; empty: this node does."""

    @property
    def words(self) -> str:
        """Its name, and where it is when not here."""
        name = one_line(self.id, 80)
        if not self.holders:
            return name
        more = f" and {len(self.holders) - _HOLDERS} more" if len(self.holders) > _HOLDERS else ""
        return f"{name} on {', '.join(self.holders[:_HOLDERS])}{more}"


def chat_models(snapshot: NodeSnapshot | None) -> tuple[ChatModel, ...]:
    """Each name once; what this node has itself comes first."""
    if snapshot is None:
        return ()
    own = [ChatModel(model.id) for model in snapshot.models if model.status == "ready" and model.chat]
    known = {str(model.id) for model in own}
    holders: dict[str, list[str]] = {}
    for row in snapshot.peers:
        if row.status != "alive" or not (row.path or row.address):
            continue
        for model in row.models:
            if model.status == "ready" and model.chat and model.id not in known:
                if len(holders) >= OFFERED and model.id not in holders:
                    continue
                holders.setdefault(model.id, []).append(name_of(row))
    return (*own, *(ChatModel(ModelId(name), tuple(names)) for name, names in holders.items()))
