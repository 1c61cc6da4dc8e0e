"""Revoking: who may end what, and who falls with whom."""

from collections.abc import Iterable

from meshllm_core.errors import InvalidRequest, NotPermitted
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import Membership, moment
from meshllm_core.membership.invites import OPEN, Invite
from meshllm_core.membership.records import Record
from meshllm_core.membership.register import Register
from meshllm_core.membership.revocation import read_revocation, sign_revocation

PREFIX_DIGITS = 6
"""Hex digits that are enough to name a member or an invite, where only one begins so."""


class Revoker(Register):
    """The part of a roster that takes away."""

    def revoke(self, key: SigningKey, target: bytes, *, wall: float) -> list[Record]:
        """Ends the membership of a node with all that it let in, or an invite.

        Invites that are still open and by which those nodes came are closed too, as far as `key` may:
        they could come back by them under another key. Raises NotPermitted, InvalidRequest.
        """
        if target not in self._members:
            known = self._book.of(target) if target != OPEN else []
            if not known:
                raise InvalidRequest(
                    f"{short(target)} is neither a member nor an invite.",
                    hint="See `meshllm members` and `meshllm invites`.",
                    param="target",
                )
            records = [self._revoke_invite(key, invite, record, wall) for invite, record in known]
            self._learn_all(records, wall)
            return records
        falling = self.would_revoke(target, key.public)
        records = [self._revoke_member(key, NodeId(target), wall)]
        for invite, record in self._book.all():
            came = set(self._book.users(invite.id)) & set(falling)
            if came and invite.id != OPEN and self._may_revoke_invite(key.public, record.signer):
                records.append(self._revoke_invite(key, invite, record, wall))
        self._learn_all(records, wall)
        return records

    def would_revoke(self, target: bytes, signer: NodeId | None = None) -> list[NodeId]:
        """Who would be a member no more if `signer` (else: the root) revoked `target`, that one included."""
        by = signer or self.root
        return [
            node
            for node, known in self._members.items()
            if all(_hangs_on(membership, target, by, self.root) for membership, _ in known.values())
        ]

    def resolve(self, text: str) -> bytes:
        """The member or invite whose id begins so, in hex. Raises InvalidRequest."""
        wanted = text.strip().lower()
        names = [*self._members, *{invite.id for invite, _ in self._book.all() if invite.id != OPEN}]
        found = [name for name in names if name.hex().startswith(wanted)]
        if len(found) == 1 and len(wanted) >= PREFIX_DIGITS:
            return bytes(found[0])
        if not found:
            many = "No member's and no invite's id begins"
        else:
            many = "One id begins" if len(found) == 1 else f"{len(found)} ids begin"
        raise InvalidRequest(
            f"{many} with {text[:70]!r}.",
            hint=f"Give {PREFIX_DIGITS} hex digits or more of one in `meshllm members` or `meshllm invites`.",
            param="target",
        )

    def _revoke_member(self, key: SigningKey, target: NodeId, wall: float) -> Record:
        known = [membership for membership, _ in self._members[target].values()]
        mine = [membership for membership in known if stands_above(membership, key.public, self.root)]
        if not mine or self._authority(key.public, wall) is None:
            by = ", ".join(sorted(short(membership.admitted_by) for membership in known))
            raise NotPermitted(
                f"{short(key.public)} may not revoke {short(target)}, which was let in by {by}.",
                hint="The founder, or a member through which it came, can.",
            )
        latest = max(membership.links[0].issued_at for membership in known)
        at = max(moment(wall), latest, self._revocations.of_node(target) + 1)
        raw = sign_revocation(key, self.mesh, "member", target, mine[0].chain, at)
        return read_revocation(self.mesh, raw, wall)

    def _may_revoke_invite(self, signer: NodeId, maker: NodeId) -> bool:
        if signer in (self.root, maker):
            return True
        held = self.membership(maker)
        return held is not None and stands_above(held, signer, self.root)

    def _revoke_invite(self, key: SigningKey, invite: Invite, record: Record, wall: float) -> Record:
        held = self.membership(record.signer)
        if not self._may_revoke_invite(key.public, record.signer):
            raise NotPermitted(
                f"{short(key.public)} may not revoke what {short(record.signer)} made.",
                hint="The founder, the member that made it, or one through which that member came, can.",
            )
        if held is None and record.signer != self.root:
            raise NotPermitted("The member that made it is none any more: the invite ended with it.")
        at = max(moment(wall), invite.created_at)
        raw = sign_revocation(key, self.mesh, "invite", invite.id, held.chain if held else (), at)
        return read_revocation(self.mesh, raw, wall)

    def _learn_all(self, records: Iterable[Record], wall: float) -> None:
        for record in records:
            self.learn(record, wall)


def stands_above(membership: Membership, signer: NodeId, root: NodeId) -> bool:
    """Whether the membership hangs on the word of `signer`."""
    return signer == root or any(link.subject == signer for link in membership.links[1:])


def _hangs_on(membership: Membership, target: bytes, signer: NodeId, root: NodeId) -> bool:
    """Whether the chain goes through `target`, below `signer`."""
    subjects = [link.subject for link in membership.links]
    if target not in subjects:
        return False
    return signer == root or signer in subjects[subjects.index(target) + 1 :]
