"""Fuzzes a whole member: what strangers and what members may send, down to admission and gossip.

    python -m tests.mesh.fuzz_mesh --frames 100000 --seed 1 [--admitted]

The exit status is 1 when something broke, stayed half open, or when memory grew without bound.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from meshllm_core.errors import LinkClosed
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.signed import seal
from meshllm_core.mesh import control
from meshllm_core.mesh.greeting import Greeted
from meshllm_core.mesh.session import Session
from meshllm_core.transport.link import Link
from meshllm_core.wire import gossip as go
from meshllm_core.wire import handshake as hs
from meshllm_core.wire.announcement import PURPOSE, Announcement
from tests.mesh.members import Member, members
from tests.transport.fuzz_link import Report, fuzz, messages


def gossip_frames(session: Session) -> list[bytes]:
    """One of each kind of frame that members send, some with records that are really held."""
    records = list(session.roster.records())
    items = [
        go.Item(kind=record.kind, digest=go.pack_digest(record.key, record.version), raw=record.raw)
        for record in records
    ]
    forged = SigningKey(bytes(range(32)))
    said = Announcement(
        mesh=session.state.mesh,
        incarnation=1 << 39,
        sequence=1,
        instance=bytes(8),
        at=0.0,
        name="\x1b[31mforged\u202e",
        version="9",
        protocol=1,
        role="host",
        addresses=(),
        memory_total=1,
        memory_free=1,
        devices=(),
        models=(),
        round_trips=(),
    )
    lie = go.Item(kind=5, digest=bytes(16), raw=seal(forged, PURPOSE, said))
    kinds: list[go.GossipMessage] = [
        go.Ping(nonce=1, summary=bytes(8), records=3),
        go.Pong(nonce=1, summary=bytes(8), records=3),
        go.Offer(digests=b"".join(item.digest for item in items)),
        go.Want(keys=b"".join(item.digest[:8] for item in items)),
        go.Records(items=(*items, lie)),
        go.Buckets(hashes=bytes(go.BUCKETS * go.BUCKET_HASH_BYTES)),
        go.Digests(buckets=bytes(range(256)), digests=b"".join(item.digest for item in items), last=True),
        go.Probe(nonce=2, subject=os.urandom(32)),
        go.Vouch(nonce=2, subject=os.urandom(32), answer=1, ago=5),
    ]
    return [control.GOSSIP + go.encode(message) for message in kinds] + messages()


async def run(frames: int, seed: int, *, admitted: bool) -> Report:
    """One run against a founder on loopback."""
    with tempfile.TemporaryDirectory() as folder:
        async with members(Path(folder), "founder", "friend") as (founder, friend):
            session = await founder.service.found()
            report = await fuzz(
                frames,
                seed,
                admitted=admitted,
                handler=_as_member(founder, session) if admitted else session.mesh.accept,
                samples=gossip_frames(session) if admitted else messages(),
            )
            view = await friend.join(await founder.invite())
            report.serves = view.state == "joined"
            for refusal in founder.snapshot.refusals:
                report.refused[refusal.kind] += refusal.count
            shown = " ".join(row.name for row in founder.snapshot.peers)
            if not shown.isprintable():
                report.broken.append(f"a name that commands a terminal is shown: {shown!r}")
            if not session.healthy:
                report.broken.append("a task of the mesh ended")
            return report


def _as_member(founder: Member, session: Session):  # type: ignore[no-untyped-def]
    """Takes the attacker's links as those of a member that was admitted before."""
    env = founder.service.environment

    async def handle(link: Link) -> None:
        wall = time.time()
        membership = session.roster.membership(link.peer, wall)
        if membership is None:
            secret = os.urandom(16)
            session.roster.create_invite(
                env.key, secret=secret, uses=1, expires_at=0, role="host", may_invite=False, wall=wall
            )
            session.publish(
                session.roster.admit(
                    env.key, secret, link.peer, "host", wall=wall, entropy=os.urandom
                ).records
            )
            membership = session.roster.membership(link.peer, wall)
        assert membership is not None
        hello = hs.Hello(
            protocol=1, oldest=1, version="0", instance=os.urandom(8), name="f", role="host", time=wall
        )
        with contextlib.suppress(LinkClosed):
            await session.mesh.linked(Greeted(link, await link.accept(), hello, membership, 0.0))

    return handle


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Fuzzes a member of a mesh.")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--admitted", action="store_true")
    given = parser.parse_args()
    report = asyncio.run(run(given.frames, given.seed, admitted=given.admitted))
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
