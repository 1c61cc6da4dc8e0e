"""The public side of a mesh: its listing while it is published, and joining one that others published."""

import asyncio
from dataclasses import dataclass, field

from meshllm_core.discovery.listing import Listing
from meshllm_core.discovery.relays import DEFAULT_RELAYS
from meshllm_core.discovery.score import Scored, Wants
from meshllm_core.errors import JoinFailed
from meshllm_core.mesh.auto import Found, find
from meshllm_core.mesh.dialler import dial_any
from meshllm_core.mesh.environment import Environment
from meshllm_core.mesh.join import Wanted
from meshllm_core.mesh.publisher import Publisher
from meshllm_core.mesh.session import Session
from meshllm_core.mesh.storage import Publication as Wish
from meshllm_core.state.mesh_events import Publication, PublicationChanged
from meshllm_core.transport.link import Transport
from meshllm_core.transport.nostr import NostrBoard
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Role

PROBE_SECONDS = 2.5
TRIED = 5
"""Meshes that are tried, best first, before giving up."""


def board_of(environment: Environment) -> NostrBoard:
    """The relays that this node was told to use."""
    relays = environment.options.relays or DEFAULT_RELAYS
    return NostrBoard(relays, key_file=environment.nostr_key, wall=environment.clock.time)


@dataclass
class PublicListing:
    """Keeps one session's listing up until `stop`."""

    environment: Environment
    session: Session
    wish: Wish
    _task: "asyncio.Task[None] | None" = None
    _board: NostrBoard = field(init=False)
    _publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        env = self.environment
        self._board = board_of(env)
        self._publisher = Publisher(self._board, env.key, self.listing, self._told, env.clock)

    def start(self) -> None:
        """Begins to publish."""
        self._task = asyncio.create_task(self._publisher.run(), name="publisher")

    def changed(self) -> None:
        """The mesh changed: the listing may have to."""
        self._publisher.changed()

    async def stop(self) -> None:
        """Takes the listing down."""
        await self._publisher.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._board.close()

    def listing(self) -> Listing:
        """The mesh as strangers may see it."""
        env, session = self.environment, self.session
        here = env.local()
        said = [
            state.announcement
            for state in session.mesh.gossip.peers.values()
            if state.status == "alive" and state.announcement is not None
        ]
        ready = [offer.name for offer in here.models if offer.status == "ready"]
        ready += [m.name for a in said if a.role == "host" for m in a.models if m.status == "ready"]
        devices = [*here.devices, *(d for a in said if a.role == "host" for d in a.devices)]
        return Listing(
            mesh=session.state.mesh.hex(),
            node=env.key.public.hex(),
            addresses=tuple(map(str, session.greeter.me.addresses)),
            name=self.wish.name or session.state.name,
            region=self.wish.region,
            members=1 + sum(a.role == "host" for a in said),
            clients=len(session.guests()),
            max_clients=self.wish.max_clients,
            models=tuple(dict.fromkeys(ready))[: limits.MODELS],
            vram_free=sum(device.memory_free for device in devices),
            vram_total=sum(device.memory_total for device in devices),
            version=env.options.version,
            protocol=limits.PROTOCOL,
            oldest=limits.PROTOCOL_OLDEST,
        )

    def _told(self, publication: Publication, detail: str) -> None:
        env = self.environment
        env.append(PublicationChanged(at=env.clock.time(), publication=publication, detail=detail))


@dataclass(frozen=True)
class AutoJoin:
    """Finds the public mesh that suits best."""

    environment: Environment
    transport: Transport

    async def find(self, wants: Wants) -> Found:
        """What there is, best first; every one of them answered a dial."""
        board = board_of(self.environment)
        try:
            return await find(
                board,
                self._probe,
                wants,
                skip=[self.environment.key.public],
                wall=self.environment.clock.time,
            )
        finally:
            await board.close()

    async def _probe(self, listing: Listing) -> float | None:
        clock = self.environment.clock
        began = clock.monotonic()
        link = await dial_any(
            self.transport, listing.node_id, listing.dial_addresses(), timeout=PROBE_SECONDS
        )
        # A handshake is two round trips and some arithmetic; the transport knows the trip alone.
        seconds = link.round_trip or (clock.monotonic() - began) / 2
        link.close("only asked whether anybody is here")
        return seconds


def wanted_from(scored: Scored, role: Role) -> Wanted:
    """The wish to join the mesh of a listing, by open admission."""
    listing = scored.listing
    return Wanted(
        node=listing.node_id,
        addresses=listing.dial_addresses(),
        role=role,
        mesh_prefix=listing.mesh_id,
    )


def nothing(found: Found) -> JoinFailed:
    """Why no public mesh could be joined."""
    return JoinFailed(
        found.words(),
        step="address",
        hint="`meshllm discover` shows what is listed. Found a mesh of your own with `meshllm invite`.",
    )
