"""Whether an invite lets somebody in, and if not, why: in words that say what to do."""

from collections.abc import Container
from typing import TYPE_CHECKING

from meshllm_core.errors import JoinRefused
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import Membership
from meshllm_core.membership.invites import (
    OPEN,
    Invite,
    InviteBook,
    InviteState,
    InviteView,
    ended,
    invite_id,
)
from meshllm_core.membership.records import Record
from meshllm_core.membership.revocation import Revocations
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

if TYPE_CHECKING:
    from meshllm_core.membership.register import Register

NEW_INVITE = "Ask for a new invite: `meshllm invite`."


class Admissions:
    """Judges by what a register knows."""

    def __init__(self, register: "Register", book: InviteBook, revocations: Revocations) -> None:
        self._register = register
        self._book = book
        self._revocations = revocations

    def invite_for(
        self, secret: bytes, joiner: NodeId, role: Role, wall: float, present: Container[NodeId] | None
    ) -> Invite:
        """The invite of that secret by which `joiner` may come in. Raises JoinRefused."""
        known = self._book.of(invite_id(secret))
        if not known:
            raise self._unknown(secret)
        refusals = []
        for invite, record in known:
            refusal = self._refusal(invite, record, joiner, role, wall, present)
            if refusal is None:
                return invite
            refusals.append(refusal)
        raise refusals[-1]

    def check_place(self, issuer: Membership, joiner: NodeId, role: Role) -> None:
        """Raises JoinRefused where the member that is asked cannot take `joiner` in."""
        if joiner == self._register.root or any(link.subject == joiner for link in issuer.links):
            raise JoinRefused(
                f"Node {short(joiner)} is already a member: the one it asked came in through it.",
                reason="policy",
                hint="Restore its folder, or give it a new key: `meshllm id --new`.",
            )
        if issuer.role == "client" and role == "host":
            raise JoinRefused(
                "The node that was asked is itself a client and can only take in clients.",
                reason="role",
                hint="Ask for an invite made on a host.",
            )
        if self._register.membership(joiner) is None and len(self._register.members()) >= limits.MEMBERS:
            raise JoinRefused(
                f"The mesh has {limits.MEMBERS} members, which is as many as it can have.",
                reason="full",
                hint="Members that are gone for good can be revoked: `meshllm members`, `meshllm revoke`.",
            )

    def view(self, invite: Invite, record: Record, wall: float) -> InviteView:
        """For a person."""
        users = self._book.users(invite.id)
        used = self._open_places(wall, None) if invite.id == OPEN else len(users)
        return InviteView(
            id=invite.id,
            role=invite.role,
            may_invite=invite.may_invite,
            uses=invite.uses,
            used=used,
            used_by=users,
            created_at=invite.created_at / 1000,
            expires_at=invite.expires_at / 1000,
            created_by=record.signer,
            state=self._state(invite, record, used, wall),
        )

    def _state(self, invite: Invite, record: Record, used: int, wall: float) -> InviteState:
        if self._revoked(invite, record, wall):
            return "revoked"
        if ended(invite, wall):
            return "expired"
        return "used_up" if invite.uses and used >= invite.uses else "open"

    def _revoked(self, invite: Invite, record: Record, wall: float) -> bool:
        """By a revocation of its own, or because its maker may not invite any more."""
        maker = record.signer
        if self._revocations.of_invite(invite.id, maker) >= invite.created_at:
            return True
        if maker == self._register.root:
            return False
        held = self._register.membership(maker, wall)
        return held is None or not held.may_invite

    def _refusal(
        self,
        invite: Invite,
        record: Record,
        joiner: NodeId,
        role: Role,
        wall: float,
        present: Container[NodeId] | None,
    ) -> JoinRefused | None:
        users = self._book.users(invite.id)
        again = joiner in users
        used = self._open_places(wall, present, but=joiner) if invite.id == OPEN else len(users)
        match self._state(invite, record, used, wall):
            case "revoked" | "expired" if invite.id == OPEN:
                return self._unknown(b"")
            case "revoked":
                return JoinRefused("The invite was revoked.", reason="revoked", hint=NEW_INVITE)
            case "expired":
                hours = (wall - invite.expires_at / 1000) / 3600
                return JoinRefused(
                    f"The invite expired {_ago(hours)} ago.", reason="expired", hint=NEW_INVITE
                )
            case "used_up" if invite.id == OPEN:
                return JoinRefused(
                    f"The mesh takes {invite.uses} visitors at a time, and as many are there.",
                    reason="full",
                    hint="Try again later, or ask for an invite.",
                )
            case "used_up" if not again:
                times = "once" if invite.uses == 1 else f"{invite.uses} times"
                return JoinRefused(
                    f"The invite was good for {times} and has been used up.",
                    reason="used_up",
                    hint=NEW_INVITE,
                )
        if self._register.revoked_at(joiner) * 1000 >= invite.created_at:
            return JoinRefused(
                f"Node {short(joiner)} was removed from the mesh after this invite was made.",
                reason="revoked",
                hint=NEW_INVITE,
            )
        if invite.role == "client" and role == "host":
            what = "This mesh is open to" if invite.id == OPEN else "This invite is for"
            return JoinRefused(
                f"{what} clients, and node {short(joiner)} wants to be a host.",
                reason="role",
                hint="Join with `meshllm client`, or ask for an invite made with `--role host`.",
            )
        return None

    def _open_places(self, wall: float, present: Container[NodeId] | None, but: NodeId | None = None) -> int:
        """How many of those that came without an invite are members, and there, now."""
        return sum(
            node != but
            and self._register.membership(node, wall) is not None
            and (present is None or node in present)
            for node in self._book.users(OPEN)
        )

    def _unknown(self, secret: bytes) -> JoinRefused:
        if not secret:
            return JoinRefused(
                "This mesh takes nobody in without an invite.", reason="policy", hint=NEW_INVITE
            )
        return JoinRefused(
            "The mesh knows no such invite: it was removed long ago, or is for another mesh.",
            reason="unknown_invite",
            hint=NEW_INVITE,
        )


def _ago(hours: float) -> str:
    if hours < 1:
        return f"{max(1, hours * 60):.0f} minutes"
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
