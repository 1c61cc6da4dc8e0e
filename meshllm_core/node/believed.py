"""Whose measurements of codecs count on this node: its own, and those of nodes that its owner signed.

Another node is of this node's owner when both hold a valid certificate by the same owner's key. Names,
membership and the trust store's list of owners make nobody one; what it revokes is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.certify.record import Certified
from meshllm_core.errors import MeshError
from meshllm_core.ids import NodeId
from meshllm_core.membership.trust import OwnerStatus, TrustStore, judge
from meshllm_core.mesh.owner_store import OwnerStore
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.foreign_certificates import FOLDER, ForeignCertificates
from meshllm_core.paths import Paths


@dataclass(frozen=True)
class Kin:
    """The nodes of this node's owner, at one moment."""

    trust: TrustStore
    me: NodeId
    mine: bytes
    """This node's owner's certificate; empty: it has no owner, and therefore no kin."""
    wall: float

    def includes(self, node: NodeId, certificate: bytes) -> bool:
        """Whether `node`, which showed this owner's certificate, belongs to the owner of this node."""
        own, other = self._judged(self.me, self.mine), self._judged(node, certificate)
        return own is not None and other is not None and own.owner == other.owner

    def _judged(self, node: NodeId, certificate: bytes) -> OwnerStatus | None:
        """Only a certificate for that very node that holds and is valid now."""
        found = judge("off", self.trust, certificate, node, self.wall)
        return found if found.status in ("verified", "untrusted_owner") else None


@dataclass(frozen=True)
class Known:
    """Measurements, by what they are worth here."""

    own: tuple[Certified, ...] = ()
    kin: tuple[Certified, ...] = ()
    """Of other nodes of the same owner."""
    strangers: tuple[Certified, ...] = ()
    """To be shown, and nothing else."""

    @property
    def believed(self) -> tuple[Certified, ...]:
        """Those that decide."""
        return (*self.own, *self.kin)


def kin_of(paths: Paths, me: NodeId, wall: float) -> Kin:
    """As the owner's files say now. Raises nothing: where they cannot be read, there are none. Blocks."""
    owners = OwnerStore(paths)
    try:
        return Kin(owners.read_trust(), me, owners.installed(), wall)
    except MeshError:
        return Kin(TrustStore(), me, b"", wall)


def known_records(paths: Paths, me: NodeId, wall: float, carried: Iterable[Certified] = ()) -> Known:
    """Everything on this disk, and what was `carried` by a package; each once.

    Blocks. Raises StorageError where this node's own cannot be read; those of others are then just not there.
    """
    foreign = ForeignCertificates(paths.certificates)
    here = CertificateStore(paths.certificates).load()
    try:
        theirs, shown = foreign.load(), foreign.owners()
    except MeshError:
        theirs, shown = (), {}
    kin, wanted = kin_of(paths, me, wall), {record.signer for record in (*here, *carried, *theirs)}
    family = {node for node in wanted - {me} if kin.includes(node, shown.get(node, b""))}
    seen = set()
    sorted_out: tuple[list[Certified], list[Certified], list[Certified]] = ([], [], [])
    for record in (*here, *carried, *theirs):
        key = record.signer, record.certificate
        if key not in seen:
            seen.add(key)
            sorted_out[0 if record.signer == me else 1 if record.signer in family else 2].append(record)
    return Known(*map(tuple, sorted_out))


def stamp_of(paths: Paths, wall: float) -> tuple[int, ...]:
    """Changes when what `known_records` says may have: files that came or went, and an hour that passed."""
    owners, folder = OwnerStore(paths), paths.certificates
    places = (folder, folder / FOLDER, owners.trust_file, owners.certificate_file)
    return (*(_changed(place) for place in places), int(wall // 3600))


def _changed(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
