"""What a member does for its mesh: admit, invite, revoke, renew. What it knows is in `register`.

Each method signs with the key it is given, the member's own or the mesh's root key, folds its records in
at once and returns them to be spread. A method that refuses has changed nothing.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass

from meshllm_core.errors import InvalidRequest, JoinRefused, NotPermitted
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership import invites as inv
from meshllm_core.membership.admission import Admissions
from meshllm_core.membership.certificates import (
    CLOCK_TOLERANCE,
    DAY,
    MEMBER_LIFE,
    SERIAL_BYTES,
    Certificate,
    Entropy,
    Membership,
    issue,
    moment,
    read_chain,
)
from meshllm_core.membership.invites import OPEN, Invite, InviteUse, InviteView, invite_id
from meshllm_core.membership.records import Record
from meshllm_core.membership.register import membership_record
from meshllm_core.membership.revoking import Revoker, stands_above
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

SECRET_BYTES = 16
"""Shortest secret of an invite."""
RENEW_WITHIN = 30 * DAY
MOST_USES = 65_535
NEVER = float(1 << 37)
"""Seconds since the epoch that nobody will see: an expiry is not later."""

Policy = Callable[[NodeId], str]
"""Why a node may not be admitted, in a sentence; empty: it may."""


@dataclass(frozen=True)
class Admission:
    """A new member: what it gets, and what the others are told."""

    chain: tuple[bytes, ...]
    records: tuple[Record, ...]


class Roster(Revoker):
    """A member's view of its mesh, and what it may do about it."""

    def __init__(self, mesh: MeshId, me: NodeId, *, policy: Policy = lambda _: "") -> None:
        super().__init__(mesh, me)
        self._policy = policy

    def admit(
        self,
        key: SigningKey,
        secret: bytes,
        joiner: NodeId,
        role: Role,
        *,
        wall: float,
        entropy: Entropy,
        present: Container[NodeId] | None = None,
    ) -> Admission:
        """Makes `joiner`, whose key was proved, a member. An empty secret asks for open admission.

        `present` says who is there now: with it only those count against the limit of open admission.
        Raises JoinRefused with reason expired, used_up, revoked, unknown_invite, role, policy or full.
        """
        if why := self._policy(joiner):
            raise JoinRefused(why, reason="policy", hint="Ask whoever runs that machine.")
        admissions = Admissions(self, self._book, self._revocations)
        invite = admissions.invite_for(secret, joiner, role, wall, present)
        held = self.membership(joiner, wall)
        if held is not None and self._has_it_all(held, invite, role, key.public, wall):
            # It asks again, because the answer was lost or its folder was: nothing new is given away.
            return Admission(held.chain, (membership_record(held),))
        life = inv.OPEN_LIFE if invite.id == OPEN else MEMBER_LIFE
        try:
            issuer = self._inviter(key.public, wall)
            admissions.check_place(issuer, joiner, role)
            chain = self._certify(key, issuer, joiner, role, invite.may_invite, life, wall, entropy)
        except NotPermitted as error:
            raise JoinRefused(error.message, reason="policy", hint=error.hint) from None
        use = inv.sign_use(key, InviteUse(self.mesh, invite.id, joiner, moment(wall)))
        records = (membership_record(read_chain(self.mesh, chain)), use)
        self._learn_all(records, wall)
        return Admission(chain, records)

    def create_invite(
        self,
        key: SigningKey,
        *,
        secret: bytes,
        uses: int,
        expires_at: float,
        role: Role,
        may_invite: bool,
        wall: float,
    ) -> Record:
        """`uses` 0: any number; `expires_at` in seconds since the epoch, 0: never.

        Raises NotPermitted, InvalidRequest.
        """
        if len(secret) < SECRET_BYTES:
            raise InvalidRequest(f"An invite's secret has at least {SECRET_BYTES} bytes.", param="secret")
        if expires_at and expires_at <= wall:
            raise InvalidRequest("The invite would have expired already.", param="expires_seconds")
        if not 0 <= uses <= MOST_USES:
            raise InvalidRequest(f"An invite has at most {MOST_USES} uses; 0 is any number.", param="uses")
        ends = moment(min(expires_at, NEVER))
        return self._publish_invite(key, invite_id(secret), role, uses, ends, wall, may_invite=may_invite)

    def open_admission(
        self, key: SigningKey, *, max_clients: int, role: Role = "client", wall: float
    ) -> Record:
        """Admits from now on without an invite, `max_clients` at a time. Raises NotPermitted."""
        if not 0 < max_clients <= MOST_USES:
            raise InvalidRequest(f"1 to {MOST_USES} clients can be let in.", param="max_clients")
        return self._publish_invite(key, OPEN, role, max_clients, 0, wall)

    def close_admission(self, key: SigningKey, *, wall: float) -> list[Record]:
        """Ends open admission; members that came by it stay until their time is over, within a week.

        Raises NotPermitted when another member opened the mesh, over whom `key` has no say.
        """
        opened = [
            (invite, record)
            for invite, record in self._book.of(OPEN)
            if not inv.ended(invite, wall)
            and self._revocations.of_invite(OPEN, record.signer) < invite.created_at
        ]
        records = [self._revoke_invite(key, invite, record, wall) for invite, record in opened]
        self._learn_all(records, wall)
        return records

    def invites(self, wall: float) -> list[InviteView]:
        """Oldest first, those that ended lately included; without open admission."""
        admissions = Admissions(self, self._book, self._revocations)
        return [
            admissions.view(invite, record, wall) for invite, record in self._book.all() if invite.id != OPEN
        ]

    def admission(self, wall: float) -> InviteView | None:
        """The open admission that is valid now; its `uses` is the number of clients. None: invites only."""
        admissions = Admissions(self, self._book, self._revocations)
        views = [admissions.view(invite, record, wall) for invite, record in self._book.of(OPEN)]
        return next((view for view in views if view.state in ("open", "used_up")), None)

    def renewal_due(self, wall: float, signer: NodeId | None = None) -> list[NodeId]:
        """Members above whom `signer` (else: this node) stands and whose time is nearly over.

        That is the last 30 days of a year, and the last twelfth of a shorter time.
        """
        by = signer or self.me
        if self._authority(by, wall) is None:
            return []
        opened = set(self._book.users(OPEN)) if self.admission(wall) is None else set()
        due = []
        for membership in self.members(wall):
            life = membership.expires_at - membership.issued_at
            near = membership.expires_at - wall < min(RENEW_WITHIN, life / 12)
            if near and membership.node not in opened and self._gains(membership, by, wall):
                due.append(membership.node)
        return due

    def renew(self, key: SigningKey, node: NodeId, *, wall: float, entropy: Entropy) -> list[Record]:
        """A new certificate with the rights of the old one. Raises NotPermitted."""
        issuer = self._inviter(key.public, wall)
        held = self.membership(node, wall)
        if held is None or not stands_above(held, key.public, self.root):
            raise NotPermitted(
                f"{short(key.public)} did not let {short(node)} in and cannot renew its membership.",
                hint="Whoever invited it can.",
            )
        life = self._life(held)
        chain = self._certify(key, issuer, node, held.role, held.may_invite, life, wall, entropy)
        records = [membership_record(read_chain(self.mesh, chain))]
        if life <= inv.OPEN_LIFE:
            records.append(inv.sign_use(key, InviteUse(self.mesh, OPEN, node, moment(wall))))
        self._learn_all(records, wall)
        return records

    def _inviter(self, node: NodeId, wall: float) -> Membership:
        found = self._authority(node, wall)
        if found is None or not found.may_invite:
            state = "is no member of this mesh" if found is None else "may not invite"
            raise NotPermitted(
                f"Node {short(node)} {state}.",
                hint="Ask the founder, or a member that was invited with --may-invite.",
            )
        if len(found.chain) >= limits.CHAIN_LENGTH:
            raise NotPermitted(
                f"Node {short(node)} is {len(found.chain)} invitations from the root, the most there may be.",
                hint="Ask a member nearer to the founder.",
            )
        return found

    def _has_it_all(self, held: Membership, invite: Invite, role: Role, signer: NodeId, wall: float) -> bool:
        """Whether the invite would give a member nothing that it has not got already."""
        # What the same member gave before, it would replace.
        lasting = held.admitted_by == signer and held.expires_at > wall + inv.OPEN_LIFE
        return (
            (held.role == "host" or role == "client")
            and (held.may_invite or not invite.may_invite)
            and (lasting or invite.id == OPEN or held.node in self._book.users(invite.id))
        )

    def _life(self, held: Membership) -> float:
        """How long the next certificate of a member lasts, in seconds."""
        life = held.expires_at - held.issued_at
        visitor = life <= inv.OPEN_LIFE and held.node in self._book.users(OPEN)
        return life if visitor else max(life, MEMBER_LIFE)

    def _certify(
        self,
        key: SigningKey,
        issuer: Membership,
        subject: NodeId,
        role: Role,
        may_invite: bool,
        life: float,
        wall: float,
        entropy: Entropy,
    ) -> tuple[bytes, ...]:
        # The clocks of those that admit and that revoke may differ: what is new is later than both say.
        above = issuer.links[0].issued_at if issuer.links else 0
        issued_at = max(moment(wall), above, self._revocations.of_node(subject) + 1)
        expires_at = min(issued_at + moment(life), moment(issuer.expires_at))
        if expires_at <= issued_at:
            raise NotPermitted(
                f"The membership of {short(key.public)} is over.", hint="Whoever invited it can renew it."
            )
        certificate = Certificate(
            mesh=self.mesh,
            subject=subject,
            role=role,
            may_invite=may_invite and len(issuer.chain) + 1 < limits.CHAIN_LENGTH,
            issued_at=issued_at,
            expires_at=expires_at,
            serial=entropy(SERIAL_BYTES),
        )
        return (issue(key, certificate), *issuer.chain)

    def _publish_invite(
        self,
        key: SigningKey,
        identity: bytes,
        role: Role,
        uses: int,
        expires_at: int,
        wall: float,
        *,
        may_invite: bool = False,
    ) -> Record:
        maker = self._inviter(key.public, wall)
        if maker.role == "client" and role == "host":
            raise NotPermitted("A client can invite clients only.", hint="Use `--role client`.")
        if may_invite and len(maker.chain) + 2 > limits.CHAIN_LENGTH:
            raise NotPermitted(
                "This member is too far from the founder to pass the right to invite on.",
                hint="Leave --may-invite out, or ask the founder.",
            )
        known = [invite for invite, record in self._book.of(identity) if record.signer == key.public]
        # Later than what it replaces, and than what was revoked before: clocks may differ by a day.
        revoked = min(self._revocations.latest, moment(wall + CLOCK_TOLERANCE) - 1)
        created_at = max([moment(wall), revoked + 1, *(invite.created_at + 1 for invite in known)])
        invite = Invite(self.mesh, identity, role, may_invite, uses, created_at, expires_at)
        record = inv.sign_invite(key, invite)
        if self._book.full_for(record, invite, wall):
            raise NotPermitted(
                f"{limits.INVITES} invites are open already.", hint="Revoke some: `meshllm invites`."
            )
        self._learn_all([record], wall)
        return record

    def _gains(self, membership: Membership, signer: NodeId, wall: float) -> bool:
        """Whether a new certificate by `signer` would last at least twice as long from now."""
        issuer = self._authority(signer, wall)
        if issuer is None or not issuer.may_invite or not stands_above(membership, signer, self.root):
            return False
        ends = min(wall + self._life(membership), issuer.expires_at)
        return ends - wall > 2 * (membership.expires_at - wall)
