"""The part of the fold that is about the mesh: peers, invites, the join checklist, refusals."""

from bisect import bisect_left
from typing import Any, assert_never

import msgspec

from meshllm_core.state import mesh_events as ev
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.snapshot import JoinLine, JoinView, MeshView, NodeSnapshot, RefusalView

replace = msgspec.structs.replace

PEERS_SHOWN = 4096
REFUSALS_SHOWN = 32

MeshEvent = (
    ev.IdentityLoaded
    | ev.MeshEntered
    | ev.MeshLeft
    | ev.AddressesChanged
    | ev.ReachMeasured
    | ev.PeerUpdated
    | ev.PeerForgotten
    | ev.JoinStarted
    | ev.JoinStepped
    | ev.JoinEnded
    | ev.PublicationChanged
    | ev.LendingChanged
    | ev.BlocksChanged
    | ev.InvitesChanged
    | ev.WaitingChanged
    | ev.RefusalCounted
)


LATELY = 5
"""Notices among which one that says the same again is left out."""


def fold_mesh(snapshot: NodeSnapshot, event: MeshEvent) -> NodeSnapshot:
    """The snapshot after an event about the mesh, without its notice."""
    match event:
        case ev.IdentityLoaded():
            return replace(snapshot, node=event.node, key_storage=event.storage)
        case ev.MeshEntered():
            return _entered(snapshot, event)
        case ev.MeshLeft():
            return replace(snapshot, mesh=None, peers=())
        case ev.AddressesChanged():
            return _mesh(snapshot, addresses=event.addresses, left_out=event.left_out)
        case ev.ReachMeasured():
            return _mesh(snapshot, accepts_udp=event.accepts_udp, accepts_tcp=event.accepts_tcp)
        case ev.PublicationChanged():
            return _mesh(snapshot, publication=event.publication, publication_detail=event.detail)
        case ev.LendingChanged():
            return replace(snapshot, lending_paused=event.paused)
        case ev.BlocksChanged():
            return _mesh(snapshot, blocked=event.nodes)
        case ev.InvitesChanged():
            return _mesh(snapshot, invites=event.invites)
        case ev.WaitingChanged():
            return _mesh(snapshot, waiting=event.waiting)
        case ev.PeerUpdated():
            return _peer(snapshot, event.peer)
        case ev.PeerForgotten():
            return replace(snapshot, peers=tuple(row for row in snapshot.peers if row.node != event.node))
        case ev.JoinStarted() | ev.JoinStepped() | ev.JoinEnded():
            return replace(snapshot, join=_join(snapshot.join, event))
        case ev.RefusalCounted():
            return _refusal(snapshot, event)
        case _:
            assert_never(event)


def _entered(snapshot: NodeSnapshot, event: ev.MeshEntered) -> NodeSnapshot:
    view = MeshView(
        mesh=event.mesh,
        name=event.name,
        role=event.role,
        founder=event.founder,
        may_invite=event.may_invite,
        port=event.port,
        discovery=event.discovery,
        entered_at=event.at,
    )
    return replace(snapshot, mesh=view, peers=())


def _mesh(snapshot: NodeSnapshot, **changes: Any) -> NodeSnapshot:
    if snapshot.mesh is None:
        return snapshot
    return replace(snapshot, mesh=replace(snapshot.mesh, **changes))


def _order(row: ev.PeerRow) -> tuple[str, str]:
    return row.name.casefold(), row.node


def _place(peers: tuple[ev.PeerRow, ...], row: ev.PeerRow) -> int | None:
    """Where a member stands; most of what is heard of members are figures, and their place is by the name."""
    place = bisect_left(peers, _order(row), key=_order)
    if place < len(peers) and peers[place].node == row.node:
        return place
    return next((place for place, other in enumerate(peers) if other.node == row.node), None)


def _peer(snapshot: NodeSnapshot, row: ev.PeerRow) -> NodeSnapshot:
    peers, place = snapshot.peers, _place(snapshot.peers, row)
    if place is not None and peers[place].name == row.name:
        return replace(snapshot, peers=(*peers[:place], row, *peers[place + 1 :]))
    rows = [other for other in peers if other.node != row.node]
    if len(rows) >= PEERS_SHOWN:
        return snapshot
    return replace(snapshot, peers=tuple(sorted((*rows, row), key=_order)))


def _join(view: JoinView | None, event: ev.JoinStarted | ev.JoinStepped | ev.JoinEnded) -> JoinView | None:
    match event:
        case ev.JoinStarted():
            lines = tuple(JoinLine(step=step, status="waiting") for step in ev.JOIN_STEPS)
            return JoinView(how=event.how, started_at=event.at, lines=lines)
        case ev.JoinStepped() if view is not None:
            line = JoinLine(step=event.step, status=event.status, detail=event.detail)
            return replace(view, lines=tuple(line if old.step == event.step else old for old in view.lines))
        case ev.JoinEnded() if view is not None:
            state = "joined" if event.joined else "failed"
            return replace(view, state=state, message=event.message, hint=event.hint)
    return view


def _refusal(snapshot: NodeSnapshot, event: ev.RefusalCounted) -> NodeSnapshot:
    view = RefusalView(kind=event.kind, count=event.count, last_at=event.at, detail=event.detail)
    others = tuple(other for other in snapshot.refusals if other.kind != event.kind)
    return replace(snapshot, refusals=(*others, view)[-REFUSALS_SHOWN:])


def mesh_words(snapshot: NodeSnapshot, event: MeshEvent) -> tuple[NoticeLevel, str] | None:
    """(level, text) of what a person should read in the log about `event`, which is not folded in yet."""
    match event:
        case ev.MeshEntered():
            kind = "founded" if event.founder and not snapshot.mesh else "entered"
            return "info", f"{kind} the mesh {event.name or event.mesh[:10]}"
        case ev.MeshLeft():
            return "info", f"left the mesh: {event.reason}"
        case ev.JoinEnded():
            text = f"{event.message} {event.hint}".strip()
            # A join that was asked for at the start is tried again and again.
            if not event.joined and any(notice.text == text for notice in snapshot.notices[-LATELY:]):
                return None
            return ("info" if event.joined else "error"), text
        case ev.PublicationChanged():
            failed = event.publication == "publish_failed"
            return (
                "warning" if failed else "info"
            ), f"the mesh is {event.publication}. {event.detail}".strip()
        case ev.RefusalCounted(count=count) if count == 1 or count % 1000 == 0:
            kind = event.kind if event.kind.startswith("refused") else f"refused, {event.kind}"
            return "warning", f"{kind}: {event.detail} ({count} in all)"
        case ev.LendingChanged(paused=True):
            return "info", "lending is paused: nothing new is computed for others"
        case ev.LendingChanged():
            return "info", "lending is resumed"
        case ev.WaitingChanged(waiting=rows):
            return _waiting_words(snapshot, rows)
        case ev.PeerUpdated(peer=row):
            return _peer_words(snapshot, row)
    return None


def _waiting_words(snapshot: NodeSnapshot, rows: tuple[ev.WaitingRow, ...]) -> tuple[NoticeLevel, str] | None:
    known = {row.node for row in snapshot.mesh.waiting} if snapshot.mesh else set()
    fresh = [f"{row.name} ({row.node[:10]})" for row in rows if row.node not in known]
    if not fresh:
        return None
    return "warning", f"{', '.join(fresh)} asks to be let in: `meshllm approve {rows[-1].node[:10]}`"


def _peer_words(snapshot: NodeSnapshot, row: ev.PeerRow) -> tuple[NoticeLevel, str] | None:
    place = _place(snapshot.peers, row)
    before = snapshot.peers[place] if place is not None else None
    if before is not None and before.status == row.status:
        return None
    # For whom there is no room in the list, each word would be the first about it.
    if before is None and (row.status != "alive" or len(snapshot.peers) >= PEERS_SHOWN):
        return None
    texts: dict[ev.PeerStatus, tuple[NoticeLevel, str]] = {
        "alive": ("info", f"{row.name} is back" if before else f"{row.name} is in the mesh"),
        "suspect": ("warning", f"{row.name} does not answer"),
        "down": ("warning", f"{row.name} is gone: it stopped answering"),
        "left": ("info", f"{row.name} left"),
    }
    if row.status == "alive" and before is not None and before.status == "suspect":
        return "info", f"{row.name} answers again"
    return texts[row.status]
