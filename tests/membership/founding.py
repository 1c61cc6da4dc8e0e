"""A mesh in memory, with keys that are the same in every run."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership.certificates import found, read_chain
from meshllm_core.membership.records import Record
from meshllm_core.membership.register import membership_record
from meshllm_core.membership.roster import Admission, Roster
from meshllm_core.wire.announcement import Role

NOW = 1_800_000_000.0
HOUR = 3600.0


def key(name: str) -> SigningKey:
    """The same key for the same name."""
    return SigningKey(hashlib.sha256(name.encode()).digest())


def secret(name: str) -> bytes:
    """The secret of an invite."""
    return hashlib.sha256(b"secret " + name.encode()).digest()[:16]


def entropy() -> Callable[[int], bytes]:
    """Bytes that never come twice."""
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return count.to_bytes(size, "big")

    return draw


@dataclass
class Founded:
    """A mesh with its founder, and the founder's roster."""

    root: SigningKey = field(default_factory=lambda: key("root"))
    founder: SigningKey = field(default_factory=lambda: key("founder"))
    draw: Callable[[int], bytes] = field(default_factory=entropy)

    def __post_init__(self) -> None:
        self.mesh = MeshId(self.root.public)
        self.chain = found(self.root, self.founder.public, wall=NOW, entropy=self.draw)
        self.roster = self.roster_of(self.founder.public)

    def roster_of(self, node: NodeId, records: Iterable[Record] = ()) -> Roster:
        """A node's own, which knows the founder and what is given."""
        roster = Roster(self.mesh, node)
        roster.learn(membership_record(read_chain(self.mesh, self.chain)), NOW)
        for record in records:
            roster.learn(roster.check(record.kind, record.raw, NOW), NOW)
        return roster

    def add(
        self,
        name: str,
        *,
        by: SigningKey | None = None,
        role: Role = "host",
        may_invite: bool = False,
        wall: float = NOW,
        secret_name: str = "",
    ) -> Admission:
        """Invites the node of that name and lets it in, through the founder's roster."""
        signer = by or self.founder
        its = secret(secret_name or f"for {name} by {signer.public.hex()} at {wall}")
        if not secret_name:
            self.roster.create_invite(
                signer, secret=its, uses=1, expires_at=0, role=role, may_invite=may_invite, wall=wall
            )
        return self.roster.admit(signer, its, key(name).public, role, wall=wall, entropy=self.draw)
