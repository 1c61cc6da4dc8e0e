"""Sends a real listener what nobody should send, and says what became of it.

    python -m tests.transport.fuzz_link --frames 100000 --seed 1 [--admitted]

Half of it is datagrams, the rest comes from somebody who holds a valid key. The exit status is 1 when
something broke, stayed half open, or when the process grew without bound.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec
import psutil

from meshllm_core.errors import LinkClosed, MeshNetworkError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.transport.link import ChannelKind, Link, OnLink
from meshllm_core.transport.quic import QuicTransport
from meshllm_core.transport.quic.channel import QuicChannel
from meshllm_core.transport.quic.link import QuicLink
from meshllm_core.transport.quic.path import Path
from meshllm_core.wire import handshake as hs
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address
from meshllm_core.wire.frames import frame
from tests.transport.fuzz_packets import client_hello, crypto, dialling, initial, mutated, quic_frames, sealed

GROWTH = 96 << 20
"""Bytes that the process may have grown by, ours and the attacker's half of it together."""
BURST = 32
"""Datagrams between two turns of the listener."""
HALF_OPEN = 300
CHANNELS = 500
SECONDS = 5.0


@dataclass
class Report:
    """What was sent, and what came of it."""

    sent: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    given_up: Counter[str] = field(default_factory=Counter)
    """What aioquic raised; each ended one connection."""
    before: int = 0
    after: int = 0
    half_open: int = 0
    connections: int = 0
    seconds: float = 0.0
    serves: bool = False
    """Whether a well-behaved node is still served at the end."""

    @property
    def failed(self) -> bool:
        """Whether the listener did not stand it."""
        grown = self.after - self.before > GROWTH
        return bool(self.broken) or grown or self.half_open > 0 or not self.serves

    def lines(self) -> list[str]:
        """The table."""
        parts = [("sent", self.sent), ("refused", self.refused), ("aioquic raised", self.given_up)]
        rows = [f"{title:16}{name:28}{n:>9,}" for title, part in parts for name, n in part.most_common()]
        rows += [
            f"{'memory':16}{'before / after, MiB':28}{self.before >> 20:>5} / {self.after >> 20}",
            f"{'left':16}{'half open':28}{self.half_open:>9}",
            f"{'left':16}{'connections':28}{self.connections:>9}",
            f"{'served':16}{'a well-behaved node':28}{'yes' if self.serves else 'NO':>9}",
            f"{'took':16}{'seconds':28}{self.seconds:>9.1f}",
        ]
        return rows + [f"BROKEN: {text}" for text in self.broken]


class _Watch(logging.Handler):
    """Errors that were logged, and what connections were given up for."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.levelno >= logging.ERROR:
            self.report.broken.append(f"{record.getMessage()} {error!r}")
        elif error is not None:
            self.report.given_up[type(error).__name__] += 1


def messages() -> list[bytes]:
    """Control frames as a node sends them before it is admitted."""
    hello = hs.Hello(
        protocol=1, oldest=1, version="0.1.0", instance=bytes(8), name="fuzz", role="host", time=1e9
    )
    kinds: list[hs.HandshakeMessage] = [
        hello,
        hs.Join(secret=bytes(16), role="host"),
        hs.Probe(nonce=bytes(8)),
        hs.DialBack(nonce=bytes(8), addresses=(Address("192.0.2.1", 9),)),
    ]
    return [b"\x01" + hs.encoder.encode(message) for message in kinds]


async def read_control(link: Link) -> None:
    """Stands for the mesh: reads the control channel and decodes what comes."""
    try:
        channel = await link.accept()
        while (body := await channel.receive()) is not None:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                hs.decoder.decode(body[1:])
        link.close("that was all")
    except MeshNetworkError as error:
        link.close(error.message)


class Attack:
    """An attacker with a valid key against one listener."""

    def __init__(
        self, target: QuicTransport, key: SigningKey, mine: QuicTransport, random: Random, report: Report
    ) -> None:
        self.address = Address("127.0.0.1", target.port)
        self.key, self.mine, self.random, self.report = key, mine, random, report
        self.captured: list[bytes] = []
        self.tokens = target._tokens
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.raw.bind((self.address.host, 0))
        self.link: QuicLink | None = None
        self.channel: QuicChannel | None = None
        self._turn = 0
        send = mine._endpoint.send

        def capture(data: bytes, path: Path) -> None:
            if len(self.captured) < 2000:
                self.captured.append(data)
            send(data, path)

        mine._endpoint.send = capture  # type: ignore[method-assign]

    async def fire(self, kind: str, data: bytes) -> None:
        """One datagram, from a socket of its own."""
        self.report.sent[kind] += 1
        with contextlib.suppress(OSError):
            self.raw.sendto(data, (self.address.host, self.address.port))
        self._turn += 1
        if self._turn % BURST == 0:
            await asyncio.sleep(0)

    async def up(self) -> tuple[QuicLink, QuicChannel]:
        """A link with its control channel; a new one when the last was closed."""
        for _ in range(20):
            if self.link is not None and not self.link.over and self.channel is not None:
                return self.link, self.channel
            with contextlib.suppress(MeshNetworkError):
                self.link = await self.mine.dial(self.key.public, self.address, timeout=SECONDS)
                opened = await self.link.open(ChannelKind.CONTROL)
                assert isinstance(opened, QuicChannel)
                self.channel = opened
                self.report.sent["links"] += 1
        raise LinkClosed("The listener takes no more links.")

    async def datagrams(self, count: int) -> None:
        """Mutations of packets that were sent before."""
        link, channel = await self.up()
        for body in messages():
            await channel.send(body)
        await asyncio.sleep(0.05)
        for _ in range(count):
            data = mutated(self.random, self.random.choice(self.captured), self.captured)
            await self.fire("mutated datagrams", data)
        link.close()

    async def hellos(self, count: int) -> None:
        """First packets that can be opened and hold nonsense, from an address that was proved."""
        hello, source = client_hello()
        for turn in range(count):
            payload = crypto(mutated(self.random, hello)) if turn % 2 else quic_frames(self.random)
            given = self.random.randbytes(8)
            token = self.tokens.make(
                self.raw.getsockname(), self.random.randbytes(8), given, time.monotonic()
            )
            await self.fire("sealed first packets", initial(payload, source, given, token))
            if turn % 4 == 0:
                await asyncio.sleep(0)

    async def packets(self, count: int) -> None:
        """Packets of a proven peer, sealed, with nonsense inside."""
        for turn in range(count):
            link, _ = await self.up()
            driver = link._driver
            self.mine._endpoint.send(sealed(driver.quic, quic_frames(self.random)), driver.path)
            self.report.sent["sealed packets"] += 1
            if turn % 8 == 0:
                await asyncio.sleep(0.001)

    async def frames(self, count: int, samples: Sequence[bytes]) -> None:
        """Mutated frames on the control channel."""
        for turn in range(count):
            link, channel = await self.up()
            data = frame(self.random.choice(samples))
            if self.random.random() < 0.9:
                data = data[:4] + mutated(self.random, data[4:], samples)
                data = frame(data[4:]) if self.random.random() < 0.95 else data
            else:
                data = mutated(self.random, data)
            if channel._closed:
                link.close("next")
                continue
            end = self.random.random() < 0.005
            link.write(channel.stream_id, data, end=end)
            self.report.sent["control frames"] += 1
            if end or turn % 16 == 0:
                await asyncio.sleep(0.001)
            if end:
                link.close("next")

    async def oversized(self, count: int) -> None:
        """Lengths that announce far too much, each at the start of a frame."""
        for _ in range(count):
            if self.link is not None:
                self.link.close("next")
            link, channel = await self.up()
            length = self.random.choice((limits.CONTROL_FRAME + 1, 1 << 24, 1 << 31, (1 << 32) - 1))
            link.write(channel.stream_id, length.to_bytes(4, "big") + bytes(1000))
            self.report.sent["oversized lengths"] += 1
            try:
                await asyncio.wait_for(link.wait_closed(), SECONDS)
            except TimeoutError:
                self.report.broken.append(f"a frame of {length} bytes was not refused")

    async def channels(self, count: int) -> None:
        """More channels than anybody may open."""
        link, _ = await self.up()
        for turn in range(count):
            if link.over:
                link, _ = await self.up()
            quic = link._driver.quic
            kind = self.random.choice((1, 2, 3, 77))
            quic.send_stream_data(quic.get_next_available_stream_id(), bytes([kind]))
            self.report.sent["channels"] += 1
            if turn % 8 == 0:
                link._driver.transmit()
                await asyncio.sleep(0.002)
        link.close()

    async def half_open(self, count: int) -> None:
        """Handshakes that are begun and never finished."""
        for _ in range(count):
            await self.fire("half-open handshakes", dialling().datagrams_to_send(now=0.0)[0][0])
            await asyncio.sleep(0)


async def fuzz(
    frames: int,
    seed: int,
    *,
    admitted: bool = False,
    handler: OnLink = read_control,
    samples: Sequence[bytes] = (),
) -> Report:
    """Runs it. `handler` serves the links that come in; `samples` are control frames that are mutated."""
    report, random = Report(), Random(seed)
    started = time.monotonic()

    async def serve(link: Link) -> None:
        if admitted:
            link.admit()
        await handler(link)

    def counted(kind: str, detail: str) -> None:
        report.refused[kind] += 1

    def broke(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        report.broken.append(f"{context.get('message')} {context.get('exception')!r}")

    asyncio.get_running_loop().set_exception_handler(broke)
    key = SigningKey.generate()
    target = await QuicTransport.start(key, host="127.0.0.1", on_link=serve, counted=counted)
    mine = await QuicTransport.start(
        SigningKey.generate(), host="127.0.0.1", on_link=read_control, counted=lambda kind, detail: None
    )
    attack = Attack(target, key, mine, random, report)
    watch = _Watch(report)
    logger = logging.getLogger("meshllm_core")
    level = logger.level
    logger.addHandler(watch)
    logger.setLevel(logging.INFO)
    try:
        await attack.up()
        report.before = _memory()
        await attack.datagrams(frames // 2)
        await attack.hellos(frames // 20)
        await attack.packets(frames // 10)
        await attack.frames(frames - frames // 2 - frames // 20 - frames // 10, samples or messages())
        await attack.oversized(min(50, 1 + frames // 50))
        await attack.channels(min(CHANNELS, frames // 10))
        await attack.half_open(min(HALF_OPEN, frames // 20))
        await asyncio.sleep(limits.HANDSHAKE_SECONDS + 1)
        report.half_open = target.half_open
        report.serves = await _served(target, key)
        report.connections = len(target._links)
        report.after = _memory()
    finally:
        attack.raw.close()
        await mine.close()
        await target.close()
        logger.removeHandler(watch)
        logger.setLevel(level)
    report.seconds = time.monotonic() - started
    return report


async def _served(target: QuicTransport, key: SigningKey) -> bool:
    friend = await QuicTransport.start(
        SigningKey.generate(), host="127.0.0.1", on_link=read_control, counted=lambda kind, detail: None
    )
    try:
        link = await friend.dial(key.public, Address("127.0.0.1", target.port), timeout=SECONDS)
        channel = await link.open(ChannelKind.CONTROL)
        await channel.send(messages()[0])
        await asyncio.sleep(0.1)
        return not link.over
    except MeshNetworkError:
        return False
    finally:
        await friend.close()


def _memory() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--admitted", action="store_true", help="the attacker is a member")
    options = parser.parse_args()
    report = asyncio.run(fuzz(options.frames, options.seed, admitted=options.admitted))
    title = (
        f"{options.frames:,} frames, seed {options.seed}, {'admitted' if options.admitted else 'stranger'}"
    )
    sys.stdout.write("\n".join([title, *report.lines(), "FAILED" if report.failed else "passed"]) + "\n")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
