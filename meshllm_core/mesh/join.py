"""From an invite to a membership, line by line of the checklist; a failure is named within ten seconds."""

import asyncio
import ipaddress
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.errors import JoinFailed, JoinRefused, LinkClosed, PeerUnreachable, ProofInvalid, WireError
from meshllm_core.ids import MeshId, NodeId, short
from meshllm_core.mesh.checklist import Checklist
from meshllm_core.mesh.dialler import dial_any
from meshllm_core.mesh.greeting import Greeter
from meshllm_core.transport.interfaces import Interface
from meshllm_core.transport.link import Channel, Link, Transport
from meshllm_core.wire import handshake as hs
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Address, Role

DIAL_SECONDS = 3.5
"""Twice that, and the talk, stay within ten seconds in all but the rarest case."""
TALK_SECONDS = 3.0


@dataclass(frozen=True)
class Wanted:
    """Whom to ask, and with what right."""

    node: NodeId
    addresses: tuple[Address, ...]
    role: Role
    secret: bytes = field(default=b"", repr=False)
    """Empty: a public mesh with open admission."""
    mesh_prefix: bytes = b""
    """First bytes of the mesh's id; empty where it is not known."""
    expires_at: float = 0.0
    """Seconds since the epoch; 0: never."""


@dataclass(frozen=True)
class Admitted:
    """The membership, and the link on which it was given, ready to be used as a member's."""

    mesh: MeshId
    mesh_name: str
    chain: tuple[bytes, ...]
    link: Link
    channel: Channel
    hello: hs.Hello


@dataclass
class Joining:
    """One try. `interfaces` are those that this machine may use."""

    transport: Transport
    greeter: Greeter
    checklist: Checklist
    interfaces: Sequence[Interface]
    nearby: Callable[[NodeId], Coroutine[None, None, tuple[Address, ...]]]
    """Waits a moment for the addresses of a node that says on the local network that it is here."""

    async def join(self, wanted: Wanted) -> Admitted:
        """Raises JoinRefused, JoinFailed, each naming the cause and the next step."""
        self._check_token(wanted)
        self._check_interface(wanted)
        link = await self._dial(wanted)
        try:
            async with asyncio.timeout(TALK_SECONDS):
                return await self._talk(link, wanted)
        except TimeoutError:
            link.close("no answer")
            raise JoinFailed(
                f"{link.address} connected and then said nothing.",
                hint="It may be overloaded: try again, or restart meshllm there.",
            ) from None
        except (LinkClosed, WireError) as error:
            link.close("the conversation failed")
            raise JoinFailed(
                f"{link.address} ended the conversation: {error.message}",
                hint="Its log (`meshllm logs`) says why.",
            ) from error
        except JoinRefused:
            link.close("refused")
            raise

    def _check_token(self, wanted: Wanted) -> None:
        if wanted.node == self.greeter.me.key.public:
            raise JoinFailed(
                "This invite was made by this very node.",
                step="token",
                hint="Use it on another machine. If this is another machine, its home folder is a copy: "
                "make a new key there with `meshllm id --new`.",
            )
        now = self.greeter.clock.time()
        if wanted.expires_at and wanted.expires_at < now:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(wanted.expires_at))
            raise JoinRefused(
                f"The invite expired on {when} by this machine's clock.",
                reason="expired",
                hint="Ask for a new one: `meshllm invite`. If that date lies ahead, set this clock.",
            )
        self.checklist.passed("token", f"asks node {short(wanted.node)}")

    def _check_interface(self, wanted: Wanted) -> None:
        self.checklist.run("interface")
        own = [interface.address for interface in self.interfaces]
        local = any(ipaddress.ip_address(address.host).is_loopback for address in wanted.addresses)
        if not own and not local:
            raise JoinFailed(
                "This machine has no network that others could be reached by.",
                step="interface",
                hint="Connect it, or name the address to use with --bind-ip.",
            )
        words = ", ".join(f"{i.address} on {i.name}" for i in self.interfaces) or "this machine only"
        self.checklist.passed("interface", words)

    async def _dial(self, wanted: Wanted) -> Link:
        where = ", ".join(map(str, wanted.addresses))
        self.checklist.run("address", f"trying {where}" if where else "looking nearby")
        try:
            link = await self._reach(wanted)
        except ProofInvalid as error:
            self.checklist.passed("address", where)
            raise JoinFailed(
                f"Another node answered than the invite names: {error.message}",
                step="identity",
                hint="The address belongs to another machine by now. Ask for a new invite.",
            ) from error
        except PeerUnreachable as error:
            raise JoinFailed(
                f"Nobody answered at {where or 'any address: the invite names none'}."
                f" {self._why_silent(wanted.addresses)}".strip(),
                step="address",
                hint="Check that meshllm runs there (`meshllm status`) and its firewall lets UDP through.",
            ) from error
        self.checklist.passed("address", str(link.address))
        self.checklist.passed("identity", f"{short(wanted.node)} proved its key")
        return link

    async def _reach(self, wanted: Wanted) -> Link:
        """By the invite's own addresses, and by what the local network says if those are old."""
        looking = asyncio.create_task(self.nearby(wanted.node), name="look nearby")
        try:
            try:
                return await dial_any(self.transport, wanted.node, wanted.addresses, timeout=DIAL_SECONDS)
            except (PeerUnreachable, ProofInvalid) as error:
                fresh = [address for address in await looking if address not in wanted.addresses]
                if not fresh:
                    raise error
                self.checklist.run("address", f"trying {', '.join(map(str, fresh))}, seen nearby")
                return await dial_any(self.transport, wanted.node, fresh, timeout=DIAL_SECONDS)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def _why_silent(self, addresses: Sequence[Address]) -> str:
        """What can be said from here about addresses that do not answer."""
        networks = [interface.network for interface in self.interfaces]
        strange = [
            address
            for address in addresses
            if (ip := ipaddress.ip_address(address.host)).is_private
            and not ip.is_loopback
            and not any(ip in network for network in networks)
        ]
        if strange and len(strange) == len(addresses):
            own = ", ".join(map(str, networks)) or "none"
            return f"These are addresses of another private network than this machine's ({own})."
        return ""

    async def _talk(self, link: Link, wanted: Wanted) -> Admitted:
        self.checklist.run("version")
        try:
            channel, hello = await self.greeter.introduce(link)
        except JoinRefused as error:
            if error.reason == "clock":
                self.checklist.passed("version")
                self.checklist.run("clock")
            raise
        version = clean_text(hello.version, limits.VERSION)
        self.checklist.passed("version", f"{version}, protocol {hello.protocol}")
        skew = hello.time - self.greeter.clock.time()
        words = "agree" if abs(skew) < 5 else f"differ by {abs(skew):.0f} s, which is tolerated"
        self.checklist.passed("clock", f"the clocks {words}")
        self.checklist.run("admission")
        if wanted.mesh_prefix and not hello.mesh.startswith(wanted.mesh_prefix):
            raise JoinRefused(
                "The node that the invite names is in another mesh by now.",
                reason="other_mesh",
                hint="Ask for a new invite.",
            )
        joined = await self.greeter.ask(link, channel, wanted.secret, wanted.role)
        name = clean_text(joined.mesh_name, limits.NAME)
        known = msgspec.structs.replace(hello, name=joined.name, addresses=joined.addresses)
        return Admitted(MeshId(joined.mesh), name, joined.chain, link, channel, known)
