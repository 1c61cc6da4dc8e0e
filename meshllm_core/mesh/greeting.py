"""The first exchange on a link, from both sides: who are you, are you one of us, and may you join."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import JoinRefused, LinkClosed, ProofInvalid, WireError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.membership.certificates import Membership
from meshllm_core.mesh import control
from meshllm_core.mesh.refusals import refusal_of, refused
from meshllm_core.transport.link import Channel, ChannelKind, Clock, Link
from meshllm_core.wire import handshake as hs
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address, Role

SKEW_SECONDS = 86_400.0
"""Clocks that differ by more are refused, by name."""
LINGER_SECONDS = 1.0
"""A refusal is given so long to arrive before the link is closed."""


@dataclass
class Me:
    """This node as it introduces itself. The mesh's part changes when it joins or leaves."""

    key: SigningKey
    instance: bytes
    name: str
    role: Role
    version: str
    mesh: MeshId | None = None
    chain: tuple[bytes, ...] = ()
    addresses: tuple[Address, ...] = ()
    owner: bytes = b""

    def hello(self, wall: float, *, in_full: bool, observed: str = "") -> hs.Hello:
        """`in_full` only for members, and for those who asked to be judged: it names the machine."""
        return hs.Hello(
            protocol=limits.PROTOCOL,
            oldest=limits.PROTOCOL_OLDEST,
            version=self.version,
            instance=self.instance,
            name=self.name if in_full else "",
            role=self.role,
            time=wall,
            mesh=self.mesh or b"",
            chain=self.chain if in_full else (),
            addresses=self.addresses if in_full else (),
            owner=self.owner if in_full else b"",
            observed=observed,
        )


@dataclass(frozen=True)
class Greeted:
    """A peer that proved to be a member."""

    link: Link
    channel: Channel
    hello: hs.Hello
    membership: Membership
    skew: float
    """Seconds by which its clock is ahead."""


@dataclass(frozen=True)
class Door:
    """What the mesh says to those who knock. Each callable raises JoinRefused for a no."""

    judge: Callable[[NodeId, hs.Hello], Membership]
    """The membership that the chain of a hello proves."""
    admit: Callable[[NodeId, hs.Hello, hs.Join, str], Sequence[bytes]]
    """Makes a stranger, who came from that address, a member: the chain of its new certificate."""
    alone: Callable[[NodeId, bytes], Awaitable[None]]
    """Raises when another machine with the same key, but another instance, answers now."""
    mesh_name: Callable[[], str]
    counted: Callable[[str, str], None]


@dataclass
class Greeter:
    """Does the exchange for one node; `door` is None while it is in no mesh."""

    me: Me
    clock: Clock
    door: Door | None = None
    _lingering: set["asyncio.Task[None]"] = field(default_factory=set)

    async def greet(self, link: Link) -> Greeted:
        """As the side that dialled, to a node that should be a member of the same mesh.

        Raises JoinRefused, LinkClosed, WireError, TimeoutError.
        """
        async with asyncio.timeout(limits.HANDSHAKE_SECONDS):
            channel, hello = await self.introduce(link)
            return self._greeted(link, channel, hello)

    async def introduce(self, link: Link) -> tuple[Channel, hs.Hello]:
        """Sends our hello and takes the answer. Raises JoinRefused for a refusal."""
        channel = await link.open(ChannelKind.CONTROL)
        channel.limit = limits.STRANGER_FRAME
        await control.send(
            channel, self.me.hello(self.clock.time(), in_full=True, observed=str(link.address))
        )
        answer = await control.receive(channel)
        if isinstance(answer, hs.Refusal):
            raise refused(answer, by=str(link.address))
        if not isinstance(answer, hs.Hello):
            raise WireError(f"{link.address} answered a hello with something else.")
        self.check_version(answer, str(link.address))
        self.check_clock(answer, str(link.address))
        return channel, answer

    async def ask(self, link: Link, channel: Channel, secret: bytes, role: Role) -> hs.Joined:
        """May we join? After `introduce`. Raises JoinRefused."""
        await control.send(channel, hs.Join(secret=secret, role=role))
        answer = await control.receive(channel)
        if isinstance(answer, hs.Refusal):
            raise refused(answer, by=str(link.address))
        if not isinstance(answer, hs.Joined):
            raise WireError(f"{link.address} answered the wish to join with something else.")
        return answer

    async def welcome(self, link: Link) -> Greeted | None:
        """As the side that was dialled. None: the peer was refused, or only asked whether we are here."""
        try:
            async with asyncio.timeout(limits.HANDSHAKE_SECONDS):
                channel = await link.accept()
                return await self._converse(link, channel)
        except TimeoutError:
            self._count("half open", f"{link.address} connected and said nothing in time")
            link.close("nothing was said in time")
        except WireError as error:
            self._count("malformed", f"{link.address}: {error.message}")
            link.close("malformed")
        except LinkClosed:
            link.close()
        return None

    async def _converse(self, link: Link, channel: Channel) -> Greeted | None:
        channel.limit = limits.STRANGER_FRAME
        hello = await control.receive(channel)
        if not isinstance(hello, hs.Hello):
            raise WireError("The first message was no hello.")
        observed = str(link.address)
        try:
            self.check_version(hello, "This node")
            self.check_clock(hello, "This node")
            if hello.mesh:
                greeted = self._greeted(link, channel, hello)
                await self._door().alone(link.peer, hello.instance)
                await control.send(channel, self.me.hello(self.clock.time(), in_full=True, observed=observed))
                return greeted
            await control.send(channel, self.me.hello(self.clock.time(), in_full=False, observed=observed))
            return await self._stranger(link, channel, hello)
        except JoinRefused as error:
            if error.reason != "waiting":
                self._count(f"refused: {error.reason.replace('_', ' ')}", f"{observed}: {error.message}")
            await self._refuse(link, channel, refusal_of(error))
            return None

    async def _stranger(self, link: Link, channel: Channel, hello: hs.Hello) -> Greeted | None:
        while True:
            message = await control.receive(channel)
            match message:
                case hs.Probe(nonce=nonce):
                    await control.send(channel, hs.ProbeAnswer(nonce=nonce))
                case hs.Join():
                    door = self._door()
                    await door.alone(link.peer, hello.instance)
                    chain = tuple(door.admit(link.peer, hello, message, str(link.address)))
                    member = msgspec.structs.replace(hello, mesh=self.me.mesh or b"", chain=chain)
                    await control.send(
                        channel,
                        hs.Joined(
                            mesh=self.me.mesh or b"",
                            mesh_name=door.mesh_name(),
                            chain=chain,
                            name=self.me.name,
                            addresses=self.me.addresses,
                        ),
                    )
                    return self._greeted(link, channel, member)
                case _:
                    raise WireError("A stranger sent something else than a probe or a wish to join.")

    def _greeted(self, link: Link, channel: Channel, hello: hs.Hello) -> Greeted:
        if not hello.mesh or self.me.mesh is None:
            raise JoinRefused(f"{link.address} is in no mesh.", reason="not_member")
        if hello.mesh != self.me.mesh:
            raise JoinRefused(f"{link.address} belongs to another mesh.", reason="other_mesh")
        membership = self._door().judge(link.peer, hello)
        return Greeted(link, channel, hello, membership, hello.time - self.clock.time())

    def check_version(self, hello: hs.Hello, where: str) -> None:
        """Raises JoinRefused `version`, saying which side has to be updated."""
        version = clean_text(hello.version, limits.VERSION)
        if hello.protocol < limits.PROTOCOL_OLDEST:
            text = f"{version or 'An old version'} is too old for {self.me.version}: update the older one."
        elif hello.oldest > limits.PROTOCOL:
            text = f"{self.me.version} is too old for {version}: update the older one."
        else:
            return
        raise JoinRefused(f"{where}: {text}", reason="version", hint="Update meshllm there.")

    def check_clock(self, hello: hs.Hello, where: str) -> None:
        """Raises JoinRefused `clock` with the difference in hours."""
        skew = hello.time - self.clock.time()
        if not abs(skew) <= SKEW_SECONDS:
            raise JoinRefused(
                f"{where}: the clocks differ by {abs(skew) / 3600:.0f} hours"
                f" (the other machine's is {'ahead' if skew > 0 else 'behind'}).",
                reason="clock",
                hint="Set the clock of the one that is wrong, then try again.",
            )

    def _door(self) -> Door:
        if self.door is None:
            raise JoinRefused("This node is in no mesh.", reason="not_member")
        return self.door

    async def _refuse(self, link: Link, channel: Channel, refusal: hs.Refusal) -> None:
        await control.send(channel, refusal)
        await channel.finish()
        task = asyncio.create_task(_close_later(link, refusal.code), name="refused")
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    def _count(self, kind: str, detail: str) -> None:
        if self.door is not None:
            self.door.counted(kind, detail)


async def _close_later(link: Link, reason: str) -> None:
    """The other side closes once it has read the refusal; if it does not, we do."""
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            await link.wait_closed()
    except TimeoutError:
        link.close(reason)


def proof_refused(error: ProofInvalid, proof: bytes = b"") -> JoinRefused:
    """A chain that does not hold, as the refusal that the other side gets."""
    known = {"expired": "expired", "revoked": "revoked", "clock": "clock", "other_mesh": "other_mesh"}
    return JoinRefused(
        error.message, reason=known.get(error.reason, "not_member"), hint=error.hint, proof=proof
    )
