"""What gossip costs and how fast it is with many members.

`python -m tests.membership.simulate --members 1000` prints one table. All figures are of virtual
time but the last column. Traffic is what was really encoded plus 60 bytes for each packet;
announcements are as frequent as a node makes them at most.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import mean

from meshllm_core.membership import gossip as go
from meshllm_core.membership.records import RecordKind
from tests.membership.machines import Member
from tests.membership.world import World


class Run:
    """One world, measured step by step."""

    def __init__(self, members: int, seed: int) -> None:
        self.world = World(seed)
        self._begun = time.monotonic()
        self._out("| what | result | real s |\n| --- | --- | --- |\n")
        self.world.found(members)
        links = [len(member.links) for member in self.living]
        self.row(f"{members} members, seed {seed}", f"links each: mean {mean(links):.1f}, most {max(links)}")
        self.world.run(10)

    @property
    def living(self) -> list[Member]:
        """Those that run."""
        return [member for member in self.world.members.values() if member.running]

    def steady(self, seconds: float) -> None:
        """Traffic when nothing happens."""
        self._reset()
        self.world.run(seconds)
        out = [member.traffic.bytes_out / seconds for member in self.living]
        into = [member.traffic.bytes_in / seconds for member in self.living]
        self.row(
            f"traffic in {seconds:.0f} quiet seconds, bytes/s",
            f"sent: mean {mean(out):.0f}, worst {max(out):.0f}; "
            f"received: mean {mean(into):.0f}, worst {max(into):.0f}",
        )

    def join(self) -> None:
        """A newcomer with one link."""
        world, contact = self.world, self.living[len(self.living) // 2]
        newcomer = world.add()
        world.link(newcomer, contact)
        world.start(newcomer)
        took = self._until(20, lambda: self._all_see(newcomer, "alive") and self._sees_all(newcomer))
        self.row("join: everybody knows everybody", f"{took}; the newcomer received {_kb(newcomer)}")

    def kill(self) -> None:
        """A node vanishes."""
        victim = self.living[1]
        self.world.kill(victim)
        took = self._until(20, lambda: self._all_see(victim, "down"))
        self.row("killed: down in every view", took)

    def leave(self) -> None:
        """A node says goodbye."""
        leaver = self.living[2]
        self.world.leave(leaver)
        took = self._until(20, lambda: self._all_see(leaver, "left"), every=0.01)
        self.row("left: gone from every view", took)

    def freeze(self, seconds: float) -> None:
        """A node sleeps."""
        sleeper = self.living[3]
        self.world.freeze(sleeper, seconds)
        self.world.run(seconds)
        took = self._until(30, lambda: self._all_see(sleeper, "alive") and self._sees_all(sleeper))
        self.row(f"frozen for {seconds:.0f} s: back in every view", took)

    def loss(self, share: float, seconds: float) -> None:
        """Frames come late, and life signs not at all."""
        self.world.loss, self.world.lossy_pings = share, True
        self._reset()
        self.world.run(seconds)
        counted = {kind: self._count(kind) for kind in (go.PeerSuspect, go.PeerDown, go.DeathFound)}
        words = ", ".join(f"{kind.__name__} {number}" for kind, number in counted.items())
        took = self._until(30, self._is_whole)
        self.row(f"{share:.0%} loss for {seconds:.0f} s (pings lost for good)", f"{words}; all alive {took}")

    def part(self, seconds: float, share: float) -> None:
        """Two sides that do not hear each other, then heal."""
        living = [member.node for member in self.living]
        size = max(1, int(len(living) * share))
        side = set(living[:size])
        self._reset()
        self.world.part(side)
        self.world.run(seconds)
        wrong = sum(
            (member.node in side) != (node in side) and state.status == "alive"
            for member in self.living
            for node, state in member.gossip.peers.items()
        )
        self.world.heal()
        took = self._until(120, self._is_whole)
        worst = max(member.traffic.bytes_out for member in self.living) / 1000
        self.row(
            f"partition {size} | {len(living) - size} for {seconds:.0f} s, then healed",
            f"alive across it at its end: {wrong}; all alive, no death left, records equal: {took}; "
            f"deaths signed: {self._count(go.DeathFound)}; worst sender {worst:.0f} kB in all",
        )

    def row(self, what: str, result: str) -> None:
        """A line of the table."""
        self._out(f"| {what} | {result} | {time.monotonic() - self._begun:.0f} |\n")
        self._begun = time.monotonic()

    def _out(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _reset(self) -> None:
        for member in self.world.members.values():
            member.events.clear()
            member.traffic.bytes_in = member.traffic.bytes_out = 0

    def _count(self, kind: type[go.GossipEvent]) -> int:
        return sum(isinstance(event, kind) for member in self.living for event in member.events)

    def _until(self, seconds: float, holds: Callable[[], bool], every: float = 0.1) -> str:
        took = self.world.run(seconds, holds, every)
        return f"{took:.2f} s" if took < seconds else f"NOT within {seconds:.0f} s"

    def _all_see(self, subject: Member, status: str) -> bool:
        return all(
            (state := member.gossip.peers.get(subject.node)) is not None and state.status == status
            for member in self.living
            if member is not subject
        )

    def _sees_all(self, member: Member) -> bool:
        return all(
            (state := member.gossip.peers.get(other.node)) is not None and state.status == "alive"
            for other in self.living
            if other is not member
        )

    def _is_whole(self) -> bool:
        living = self.living
        nodes = {member.node for member in living}
        return (
            len({member.gossip.summary[:8] for member in living}) == 1
            and not any(r.subject in nodes for r in living[0].gossip.records(RecordKind.DEATH))
            and all(self._sees_all(member) for member in living)
        )


def _kb(member: Member) -> str:
    return f"{member.traffic.bytes_in / 1000:.0f} kB"


def main() -> None:
    """Runs all steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loss", type=float, default=0.1, help="share of frames")
    parser.add_argument("--partition", type=float, default=60.0, help="seconds")
    parser.add_argument("--freeze", type=float, default=90.0, help="seconds")
    options = parser.parse_args()
    run = Run(options.members, options.seed)
    run.steady(60)
    run.join()
    run.kill()
    run.leave()
    run.freeze(options.freeze)
    run.loss(options.loss, 60)
    run.part(options.partition, 0.0)
    run.part(options.partition, 0.5)


if __name__ == "__main__":
    main()
