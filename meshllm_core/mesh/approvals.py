"""Invites whose holders wait until a person lets them in.

Such an invite is known to the node that made it and to no other: it is in no record, so nobody can come in
by it elsewhere. For each one that is let in, this node makes an ordinary invite with a secret of its own,
good for that once, and admits by that; the rules of admission stay what they are.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import InvalidRequest, JoinRefused, NotPermitted
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.invites import InviteState, invite_id
from meshllm_core.mesh.storage import ASKING, AskingInvite
from meshllm_core.state.mesh_events import InviteRow, WaitingChanged, WaitingRow
from meshllm_core.wire import handshake as hs
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

if TYPE_CHECKING:
    from meshllm_core.mesh.session import Session

WAITING = 16
"""Machines that wait at the same time; others are told to try later."""
DECIDE_SECONDS = 600.0
"""So long a machine waits for a decision, and a decision for the machine."""
SILENT_SECONDS = 30.0
"""One that waits asks every few seconds; one that has not for so long gave up."""
_HEX_SHOWN = 10


@dataclass
class _Waiting:
    row: WaitingRow
    invite: bytes
    since: float
    asked: float
    """Monotonic seconds."""
    decision: Literal["", "yes", "no"] = ""
    secret: bytes = b""
    """Of the ordinary invite that was made for it."""


@dataclass
class Approvals:
    """Owned by a session; times are those of its clock."""

    session: "Session"
    _invites: dict[bytes, AskingInvite] = field(default_factory=dict)
    _waiting: dict[NodeId, _Waiting] = field(default_factory=dict)
    _told: tuple[WaitingRow, ...] = ()

    def __post_init__(self) -> None:
        self._invites = {invite.id: invite for invite in self.session.state.asking}

    @property
    def kept(self) -> tuple[AskingInvite, ...]:
        """For the disk."""
        return tuple(self._invites.values())

    # Invites ------------------------------------------------------------------------------------

    def invite(self, secret: bytes, *, uses: int, expires_at: float, role: Role, may_invite: bool) -> bytes:
        """A new one; its id. Raises NotPermitted, InvalidRequest."""
        env, wall = self.session.environment, self.session.environment.clock.time()
        own = self.session.roster.membership(env.key.public, wall)
        if own is None or not own.may_invite:
            raise NotPermitted("This node may not invite others.")
        gone = [key for key, invite in self._invites.items() if _state(invite, wall) != "open"]
        if len(self._invites) >= ASKING and gone:
            del self._invites[gone[0]]
        if len(self._invites) >= ASKING:
            raise InvalidRequest(f"There are {ASKING} such invites already.", hint="Revoke one first.")
        made = AskingInvite(
            id=invite_id(secret),
            role=role,
            uses=uses,
            created_at=wall,
            expires_at=expires_at,
            may_invite=may_invite,
        )
        self._invites[made.id] = made
        self._changed()
        return made.id

    def withdraw(self, target: str, *, confirm: bool) -> str:
        """Takes an invite back whose id begins so, with `confirm`; the id, empty where none begins so."""
        wanted = target.strip().lower()
        found = [key for key in self._invites if len(wanted) >= 6 and key.hex().startswith(wanted)]
        if len(found) != 1:
            return ""
        if confirm:
            self._invites[found[0]] = msgspec.structs.replace(self._invites[found[0]], revoked=True)
            self._changed()
        return found[0].hex()[:_HEX_SHOWN]

    def rows(self, wall: float) -> list[InviteRow]:
        """The invites for a person."""
        return [
            InviteRow(
                id=invite.id.hex()[:_HEX_SHOWN],
                role=invite.role,
                uses=invite.uses,
                used=len(invite.used_by),
                created_at=invite.created_at,
                expires_at=invite.expires_at,
                created_by=self.session.environment.key.public.hex(),
                state=_state(invite, wall),
                used_by=tuple(self.session.peers.name(NodeId(node)) for node in invite.used_by),
                approve=True,
            )
            for invite in self._invites.values()
        ]

    # Who waits ----------------------------------------------------------------------------------

    def secret_for(self, peer: NodeId, hello: hs.Hello, join: hs.Join, address: str) -> bytes:
        """The secret to admit `peer` by: its own, or a fresh one where a person let it in.

        Raises JoinRefused with reason `waiting` until a person has decided.
        """
        invite = self._invites.get(invite_id(join.secret)) if join.secret else None
        if invite is None:
            return join.secret
        env, now = self.session.environment, self.session.environment.clock.monotonic()
        _check(invite, env.clock.time(), join.role, again=peer in invite.used_by)
        entry = self._waiting.get(peer)
        if entry is None:
            entry = self._enter(peer, hello, join, invite, address, now)
        entry.asked = now
        if entry.decision == "yes":
            entry.secret = entry.secret or self._fresh(invite)
            return entry.secret
        if entry.decision == "no":
            raise JoinRefused("A person here said no.", reason="declined")
        raise JoinRefused(self.session.mesh.me.name, reason="waiting")

    def _enter(
        self, peer: NodeId, hello: hs.Hello, join: hs.Join, invite: AskingInvite, address: str, now: float
    ) -> _Waiting:
        if len(self._waiting) >= WAITING:
            raise JoinRefused(f"{WAITING} machines wait already.", reason="full", hint="Try again later.")
        row = WaitingRow(
            node=peer.hex(),
            name=clean_text(hello.name, limits.NAME) or short(peer),
            address=address,
            role="client" if invite.role == "client" else join.role,
            since=self.session.environment.clock.time(),
            invite=invite.id.hex()[:_HEX_SHOWN],
        )
        self._waiting[peer] = entry = _Waiting(row, invite.id, since=now, asked=now)
        self._tell()
        return entry

    def _fresh(self, invite: AskingInvite) -> bytes:
        """An ordinary invite for the one that was let in."""
        env = self.session.environment
        secret, wall = env.entropy(16), env.clock.time()
        try:
            record = self.session.roster.create_invite(
                env.key,
                secret=secret,
                uses=1,
                expires_at=wall + DECIDE_SECONDS,
                role=invite.role,
                may_invite=invite.may_invite,
                wall=wall,
            )
        except NotPermitted as error:
            raise JoinRefused(error.message, reason="policy", hint=error.hint) from None
        self.session.mesh.publish([record])
        return secret

    def admitted(self, peer: NodeId) -> None:
        """It is in: it waits no more, and its invite was used once."""
        entry = self._waiting.pop(peer, None)
        if entry is not None and (invite := self._invites.get(entry.invite)) is not None:
            self.session.peers.names.setdefault(peer, entry.row.name)
            used = tuple(dict.fromkeys((*invite.used_by, peer)))
            self._invites[invite.id] = msgspec.structs.replace(invite, used_by=used)
            self._changed()

    def decide(self, target: str, *, admit: bool) -> str:
        """Lets one in that waits, or not, when it asks next. Its name. Raises InvalidRequest."""
        wanted = target.strip().lower()
        found = [entry for entry in self._waiting.values() if not entry.decision]
        found = [entry for entry in found if wanted and entry.row.node.startswith(wanted)]
        if len(found) != 1:
            raise InvalidRequest(
                f"{len(found) or 'No'} waiting machines have an id that begins with {target[:70]!r}.",
                hint="`meshllm members` lists those that wait.",
                param="node",
            )
        found[0].decision = "yes" if admit else "no"
        found[0].since = found[0].asked = self.session.environment.clock.monotonic()
        self._tell()
        return found[0].row.name

    def tick(self) -> None:
        """Forgets those that gave up, and decisions that nobody came for."""
        now = self.session.environment.clock.monotonic()
        gone = [
            peer
            for peer, entry in self._waiting.items()
            if now - entry.since > DECIDE_SECONDS
            or (not entry.decision and now - entry.asked > SILENT_SECONDS)
        ]
        for peer in gone:
            del self._waiting[peer]
        if gone:
            self._tell()

    def _tell(self) -> None:
        rows = tuple(entry.row for entry in self._waiting.values() if not entry.decision)
        if rows != self._told:
            self._told = rows
            env = self.session.environment
            env.append(WaitingChanged(at=env.clock.time(), waiting=rows))

    def _changed(self) -> None:
        self.session.tell_invites()
        self.session.save()


def _state(invite: AskingInvite, wall: float) -> InviteState:
    if invite.revoked:
        return "revoked"
    if invite.expires_at and invite.expires_at <= wall:
        return "expired"
    return "used_up" if invite.uses and len(invite.used_by) >= invite.uses else "open"


def _check(invite: AskingInvite, wall: float, role: Role, *, again: bool) -> None:
    """Raises JoinRefused where nobody needs to be asked."""
    state = _state(invite, wall)
    if state in ("revoked", "expired") or (state == "used_up" and not again):
        raise JoinRefused("The invite is not good any more.", reason=state)
    if invite.role == "client" and role == "host":
        raise JoinRefused("The invite is for a client.", reason="role")
