"""What a member knows of its mesh: who belongs to it, what was revoked, which invites there are.

Every record is checked against what is known (`check`) and then folded in (`learn`). The order in which
records arrive does not matter: what counts is derived from the set of them. Membership of one node by
several inviters is kept side by side, so that nobody can displace what another gave.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from meshllm_core.errors import ProofInvalid
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.membership.certificates import (
    Membership,
    check_dates,
    decode_chain,
    encode_chain,
    read_chain,
    root_membership,
)
from meshllm_core.membership.gossip_records import UNKNOWN_MEMBER, check_gossip_record
from meshllm_core.membership.invites import Invite, InviteBook, InviteUse, read_invite, read_use
from meshllm_core.membership.records import Record, RecordKind, record_key
from meshllm_core.membership.revocation import Revocations, Revoked, read_revocation
from meshllm_core.wire import limits

ISSUERS = 4
"""Memberships that are kept of one node, by different issuers; when full the lowest in rank goes."""


@dataclass(frozen=True)
class Change:
    """What a record changed."""

    admitted: tuple[NodeId, ...] = ()
    """Members that were none before."""
    revoked: tuple[NodeId, ...] = ()
    """Members that are none any more because somebody revoked them, or whom they hung on."""
    ended: tuple[NodeId, ...] = ()
    """Members whose time is over."""
    invites: bool = False
    dropped: tuple[bytes, ...] = ()
    """Keys of records that nobody needs any more."""


class Register:
    """Checks and keeps the records of one mesh."""

    def __init__(self, mesh: MeshId, me: NodeId) -> None:
        self.mesh = mesh
        self.me = me
        self.root = NodeId(mesh)
        self._members: dict[NodeId, dict[NodeId, tuple[Membership, Record]]] = {}
        self._proven: OrderedDict[NodeId, Membership] = OrderedDict()
        """Checked and not learned yet: one batch may bring a member and what it signed."""
        self._revocations = Revocations(mesh)
        self._book = InviteBook()

    # Questions

    def membership(self, node: NodeId, wall: float | None = None) -> Membership | None:
        """The best that `node` has; with `wall`, None when its time is over."""
        known = [membership for membership, _ in self._members.get(node, {}).values()]
        if wall is not None:
            known = [membership for membership in known if not membership.expired(wall)]
        return max(known, key=lambda membership: membership.rank, default=None)

    def members(self, wall: float | None = None) -> list[Membership]:
        """The best membership of every member that is not revoked, in no order."""
        found = (self.membership(node, wall) for node in self._members)
        return [membership for membership in found if membership is not None]

    def is_member(self, node: NodeId, wall: float) -> bool:
        """Whether `node` is one now."""
        return self._authority(node, wall) is not None

    def revoked_at(self, node: NodeId) -> float:
        """Seconds since the epoch; 0 when nobody revoked that node itself."""
        return self._revocations.of_node(node) / 1000

    def records(self) -> Iterator[Record]:
        """What belongs on disk, in an order in which it can be restored."""
        for known in self._members.values():
            for _, record in known.values():
                yield record
        yield from self._revocations.records()
        yield from self._book.records()

    # Checks

    def verify_chain(self, chain: Sequence[bytes], subject: NodeId, wall: float) -> Membership:
        """What `chain` makes of `subject`, whose key was proved otherwise, in this mesh, now.

        Raises ProofInvalid with reason size, format, signature, chain, other_mesh, not_permitted, stolen
        (a certificate of another node), clock, expired or revoked.
        """
        membership = read_chain(self.mesh, chain)
        if membership.node != subject:
            raise ProofInvalid(
                f"Node {short(subject)} showed the certificate of {short(membership.node)}.",
                reason="stolen",
                hint="Ask for a new invite: `meshllm invite`.",
            )
        check_dates(membership, wall)
        self._check_not_revoked(membership)
        return membership

    def check(self, kind: RecordKind, raw: bytes, wall: float) -> Record:
        """The record, when signature and authority hold. Raises ProofInvalid.

        Reason UNKNOWN_MEMBER: its signer is no member as far as is known here; it may hold later.
        Reason `full`: as many are kept as can be.
        """
        match kind:
            case RecordKind.MEMBERSHIP:
                return self._check_membership(raw, wall)
            case RecordKind.REVOCATION:
                return self._check_revocation(raw, wall)
            case RecordKind.INVITE:
                return self._check_invite(raw, wall)
            case RecordKind.INVITE_USE:
                record = read_use(self.mesh, raw, wall)
                self._check_inviter(record.signer, "admitted somebody", wall)
                return record
            case _:
                return check_gossip_record(kind, raw, lambda node: self.is_member(node, wall), mesh=self.mesh)

    def _check_membership(self, raw: bytes, wall: float) -> Record:
        chain = decode_chain(raw)
        membership = read_chain(self.mesh, chain)
        check_dates(membership, wall)
        self._check_not_revoked(membership)
        known = self._members.get(membership.node)
        if known is None and len(self._members) >= limits.MEMBERS:
            raise ProofInvalid(f"More than {limits.MEMBERS} members.", reason="full")
        if known is not None and membership.admitted_by not in known and len(known) >= ISSUERS:
            worst = min(held.rank for held, _ in known.values())
            if membership.rank <= worst:
                raise ProofInvalid(f"{short(membership.node)} is a member often enough.", reason="full")
        before = self._proven.get(membership.node)
        if before is None or membership.rank > before.rank:
            self._proven[membership.node] = membership
        if len(self._proven) > limits.MEMBERS:
            self._proven.popitem(last=False)
        return membership_record(membership)

    def _check_revocation(self, raw: bytes, wall: float) -> Record:
        record = read_revocation(self.mesh, raw, wall)
        # The root's word always has room: its holder cleans up after whoever filled the list.
        if record.signer != self.root and len(self._revocations) >= limits.MEMBERS:
            raise ProofInvalid(f"More than {limits.MEMBERS} revocations.", reason="full")
        return record

    def _check_invite(self, raw: bytes, wall: float) -> Record:
        record, invite = read_invite(self.mesh, raw, wall)
        maker = self._check_inviter(record.signer, "made an invite", wall)
        if maker.role == "client" and invite.role == "host":
            raise ProofInvalid("A client made an invite for hosts.", reason="not_permitted")
        if self._book.full_for(record, invite, wall):
            raise ProofInvalid(f"More than {limits.INVITES} invites at the same time.", reason="full")
        return record

    def _check_inviter(self, node: NodeId, did: str, wall: float) -> Membership:
        found = self._authority(node, wall)
        if found is None:
            raise ProofInvalid(f"{short(node)} {did} and is no member.", reason=UNKNOWN_MEMBER)
        if not found.may_invite:
            raise ProofInvalid(f"{short(node)} {did} and may not invite.", reason="not_permitted")
        return found

    def _check_not_revoked(self, membership: Membership) -> None:
        revoked = self._revocations.of_member(membership)
        if revoked is None:
            return
        who = "it" if revoked.target == membership.node else f"{short(revoked.target)}, which let it in,"
        raise ProofInvalid(
            f"Node {short(membership.node)} is no longer a member: {who} was revoked by "
            f"{short(revoked.signer)}.",
            reason="revoked",
            hint="Ask for a new invite: `meshllm invite`.",
        )

    def _authority(self, node: NodeId, wall: float) -> Membership | None:
        """What `node` may do now: the root, a member, or one whose proof was just checked."""
        if node == self.root:
            return root_membership(self.mesh)
        found = self.membership(node, wall)
        proven = self._proven.get(node)
        if proven is not None and not proven.expired(wall) and (found is None or proven.rank > found.rank):
            return proven
        return found

    # Changes

    def learn(self, record: Record, wall: float) -> Change:
        """Folds a record in that `check` returned. The same one again changes nothing."""
        match record.body:
            case Membership() as membership:
                return self._learn_membership(record, membership)
            case Revoked() as revoked:
                if not self._revocations.add(record, revoked):
                    return Change()
                return Change(revoked=self._expel(), invites=True)
            case Invite() as invite:
                return Change(invites=self._book.add(record, invite))
            case InviteUse() as use:
                return Change(invites=self._book.add_use(record, use))
            case _:
                return Change()

    def restore(self, stored: Iterable[tuple[RecordKind, bytes]], wall: float) -> list[ProofInvalid]:
        """Takes in what was on disk, and returns why the rest no longer holds."""
        refused = []
        for kind, raw in sorted(stored, key=lambda item: item[0]):
            try:
                self.learn(self._check_own(kind, raw, wall), wall)
            except ProofInvalid as error:
                refused.append(error)
        return refused

    def prune(self, wall: float) -> Change:
        """Drops what ended. Call it now and then."""
        ended, dropped = [], self._book.prune(wall)
        for node, known in list(self._members.items()):
            for issuer, (membership, record) in list(known.items()):
                if membership.expired(wall):
                    del known[issuer]
                    dropped.append(record.key)
            if not known:
                del self._members[node]
                ended.append(node)
        return Change(ended=tuple(ended), invites=bool(dropped), dropped=tuple(dropped))

    def _check_own(self, kind: RecordKind, raw: bytes, wall: float) -> Record:
        """As `check`, for what was checked before: the maker of an invite may be no member any more.

        Whoever holds that invite is then told that it was revoked.
        """
        match kind:
            case RecordKind.INVITE:
                return read_invite(self.mesh, raw, wall)[0]
            case RecordKind.INVITE_USE:
                return read_use(self.mesh, raw, wall)
            case _:
                return self.check(kind, raw, wall)

    def _learn_membership(self, record: Record, membership: Membership) -> Change:
        self._proven.pop(membership.node, None)
        if self._revocations.of_member(membership) is not None:
            return Change()
        new = membership.node not in self._members
        if new and len(self._members) >= limits.MEMBERS:
            return Change()
        known = self._members.setdefault(membership.node, {})
        held = known.get(membership.admitted_by)
        if held is not None and held[1].version >= record.version:
            return Change()
        known[membership.admitted_by] = membership, record
        if len(known) > ISSUERS:
            del known[min(known, key=lambda issuer: known[issuer][0].rank)]
        return Change(admitted=(membership.node,) if new else (), invites=new)

    def _expel(self) -> tuple[NodeId, ...]:
        """Takes out whoever a revocation ends; returns those that are left with no membership."""
        for node, membership in list(self._proven.items()):
            if self._revocations.of_member(membership):
                del self._proven[node]
        fallen = []
        for node, known in list(self._members.items()):
            for issuer, (membership, _) in list(known.items()):
                if self._revocations.of_member(membership):
                    del known[issuer]
            if not known:
                del self._members[node]
                fallen.append(node)
        return tuple(fallen)


def membership_record(membership: Membership) -> Record:
    """A chain as a record: one per member and issuer."""
    return Record(
        kind=RecordKind.MEMBERSHIP,
        key=record_key(RecordKind.MEMBERSHIP, membership.node, membership.admitted_by),
        version=membership.links[0].issued_at,
        subject=membership.node,
        signer=membership.admitted_by,
        raw=encode_chain(membership.chain),
        body=membership,
    )
