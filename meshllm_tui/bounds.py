"""How much of a node is shown. Nodes have bounds of their own; whatever answers here need not keep them."""

import msgspec

from meshllm_core.state.events import AnyEvent
from meshllm_core.state.mesh_events import PeerRow, PeerUpdated
from meshllm_core.state.reduce_mesh import PEERS_SHOWN
from meshllm_core.state.snapshot import NodeSnapshot

MODELS_SHOWN = 64
"""Models of one member; as many as an announcement holds."""
NAME_SHOWN = 500
"""Characters of a name; longer ones are cut wherever they are shown, and would cost at each comparison."""


def bounded(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The snapshot with at most PEERS_SHOWN members, each within its own bounds; the same one where it is."""
    peers = tuple(map(bounded_row, snapshot.peers[:PEERS_SHOWN]))
    if len(peers) == len(snapshot.peers) and all(map(_is, peers, snapshot.peers)):
        return snapshot
    return msgspec.structs.replace(snapshot, peers=peers)


def bounded_event(event: AnyEvent) -> AnyEvent:
    """The same for a member that an event tells of."""
    if isinstance(event, PeerUpdated):
        row = bounded_row(event.peer)
        return event if row is event.peer else msgspec.structs.replace(event, peer=row)
    return event


def bounded_row(row: PeerRow) -> PeerRow:
    """A member with a name and models that can be shown; what was cut is said in its `detail`."""
    long, many = len(row.name) > NAME_SHOWN, len(row.models) > MODELS_SHOWN
    if not long and not many:
        return row
    said = [f"its name has {len(row.name):,} characters, {NAME_SHOWN} are shown"] if long else []
    said += [f"it names {len(row.models):,} models, {MODELS_SHOWN} are shown"] if many else []
    detail = "; ".join((*said, row.detail[:NAME_SHOWN])).rstrip("; ")
    return msgspec.structs.replace(
        row, name=row.name[:NAME_SHOWN], models=row.models[:MODELS_SHOWN], detail=detail
    )


def _is(one: PeerRow, other: PeerRow) -> bool:
    return one is other
