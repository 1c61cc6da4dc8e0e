"""A refusal in the names that people gave to their machines, with those who can do it instead."""

import re

from meshllm_core.errors import NotPermitted
from meshllm_core.ids import NodeId, short
from meshllm_core.mesh.session import Session

_HERE = ("alive", "suspect")


def cannot_invite(session: Session, error: NotPermitted) -> NotPermitted:
    """Why this node may not invite, and who may; another refusal stays as it is, but for the names."""
    own = session.roster.membership(session.mesh.me.key.public)
    if own is None or own.may_invite:
        return in_names(session, error)
    can = [member.node for member in session.roster.members() if member.may_invite]
    if not can:
        hint = "No member that is left may. Found a mesh anew: `meshllm leave`, then `meshllm invite`."
    else:
        hint = f"`meshllm invite` works on {_listed(session, can)}."
    return NotPermitted("This node may not invite others.", hint=hint)


def cannot_revoke(session: Session, error: NotPermitted, target: bytes) -> NotPermitted:
    """Why this node may not end that membership, and who may."""
    membership = session.roster.membership(NodeId(target))
    above = [NodeId(link.subject) for link in membership.links[1:]] if membership is not None else []
    if membership is not None and not above:
        hint = "Only the mesh's founder can. `meshllm block` keeps it away from this machine."
        return NotPermitted(in_names(session, error).message, hint=hint)
    if not above:
        return in_names(session, error)
    return NotPermitted(
        in_names(session, error).message, hint=f"`meshllm revoke` of it works on {_listed(session, above)}."
    )


def in_names(session: Session, error: NotPermitted) -> NotPermitted:
    """The same with names of members in the place of their ids."""
    own = session.mesh.me.key.public
    names = {short(member.node): session.peers.name(member.node) for member in session.roster.members()}
    names[short(own)] = "this node"
    ids = re.compile("(?:[Nn]ode )?(" + "|".join(map(re.escape, names)) + ")")

    def told(text: str) -> str:
        text = ids.sub(lambda found: names[found[1]], text)
        return text[:1].upper() + text[1:]

    return NotPermitted(told(error.message), hint=told(error.hint))


def _listed(session: Session, nodes: list[NodeId]) -> str:
    """Names, those who are here first, and whether they are."""
    states = {node: session.mesh.peer(node) for node in nodes}
    here = [node for node, state in states.items() if state is not None and state.status in _HERE]
    away = [node for node in nodes if node not in here]
    words = [session.peers.name(node) for node in here]
    words += [f"{session.peers.name(node)} (not there now)" for node in away]
    return " or ".join(dict.fromkeys(words))
