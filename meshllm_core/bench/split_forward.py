"""The delayed link itself, as a program: packets of two TUN devices, each handed over after a while.

    python -m meshllm_core.bench.split_forward FD FD

`tc netem` is a kernel module that many systems lack; this needs only /dev/net/tun. It reads lines
`MICROSECONDS all` or `MICROSECONDS no-tcp` from stdin, answers each with `ok` and how many packets of UDP it
took since it began, and ends with stdin.
"""

import contextlib
import heapq
import os
import select
import sys
import time

QUEUE_PACKETS = 20_000
"""Packets on their way in one direction; more are dropped, as a router does."""
LARGEST_PACKET = 65_536
READ_AT_ONCE = 64
TCP, UDP = 6, 17


class Forwarder:
    """Two devices and what is on its way between them."""

    def __init__(self, devices: tuple[int, int]) -> None:
        self.delay = 0.0
        self.tcp = True
        self.dropped = 0
        self.datagrams = 0
        self._devices = devices
        self._waiting: tuple[list[tuple[float, int, bytes]], ...] = ([], [])
        self._number = 0

    def obey(self, line: str) -> None:
        """Takes one line of orders. Raises ValueError for one that it does not know."""
        micros, what = line.split()
        if what not in ("all", "no-tcp"):
            raise ValueError(f"{what!r} is neither all nor no-tcp")
        self.delay, self.tcp = int(micros) / 1e6, what == "all"

    def take(self, side: int) -> None:
        """Reads what came from a device."""
        for _ in range(READ_AT_ONCE):
            try:
                packet = os.read(self._devices[side], LARGEST_PACKET)
            except BlockingIOError:
                return
            kind = protocol(packet)
            self.datagrams += kind == UDP
            if kind == TCP and not self.tcp:
                continue
            if len(self._waiting[side]) >= QUEUE_PACKETS:
                self.dropped += 1
                continue
            self._number += 1
            heapq.heappush(self._waiting[side], (time.monotonic() + self.delay, self._number, packet))

    def hand_over(self) -> float | None:
        """Writes what is due; seconds until something else is, None when nothing waits."""
        following: list[float] = []
        for side, waiting in enumerate(self._waiting):
            while waiting and waiting[0][0] <= time.monotonic():
                with contextlib.suppress(BlockingIOError):
                    os.write(self._devices[1 - side], heapq.heappop(waiting)[2])
            if waiting:
                following.append(waiting[0][0])
        return max(0.0, min(following) - time.monotonic()) if following else None


def protocol(packet: bytes) -> int:
    """Protocol number of an IP packet (the first header's, for IPv6); 0 for anything else."""
    if len(packet) >= 20 and packet[0] >> 4 == 4:
        return packet[9]
    return packet[6] if len(packet) >= 40 and packet[0] >> 4 == 6 else 0


def main(arguments: list[str]) -> int:
    """Forwards until stdin ends."""
    first, second = int(arguments[0]), int(arguments[1])
    for device in (first, second):
        os.set_blocking(device, False)
    with contextlib.suppress(PermissionError):  # A link does not wait for a processor.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    forwarder = Forwarder((first, second))
    while True:
        ready, _, _ = select.select([first, second, sys.stdin], [], [], forwarder.hand_over())
        for side, device in enumerate((first, second)):
            if device in ready:
                forwarder.take(side)
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return 0
            forwarder.obey(line)
            sys.stdout.write(f"ok {forwarder.datagrams}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
