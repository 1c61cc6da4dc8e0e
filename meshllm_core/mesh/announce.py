"""When a node says something new of itself: at once what matters, seldom what only flickers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor, log10

import msgspec

from meshllm_core.ids import NodeId
from meshllm_core.mesh.greeting import Me
from meshllm_core.state.pace_events import UNKNOWN, Pace
from meshllm_core.transport.link import Clock
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import Announcement, DeviceOffer, ModelOffer, RoundTrip

URGENT_SECONDS = 0.1
"""Between announcements of what others act on: models, addresses, role."""
CALM_SECONDS = 5.0
"""Between announcements of figures, in a small mesh."""
CALM_PER_MEMBER = 0.6
"""Seconds more per member, so that the traffic of a large mesh stays bounded."""
REFRESH_SECONDS = 600.0
CERTIFICATES_OF_ALL = 2048
"""Certificates of codecs that the members of a mesh name together; each names at least …"""
CERTIFICATES_LEAST = 2
"""… so many."""
MEMORY_STEP = 256 << 20
LENT_STEP = 1 << 20


@dataclass(frozen=True)
class Local:
    """What the node knows of itself and others should."""

    memory_total: int
    memory_free: int
    devices: tuple[DeviceOffer, ...]
    models: tuple[ModelOffer, ...]
    memory_lent: int = 0
    """Bytes that a stage of another member's model may take."""
    pace: Pace = UNKNOWN
    capabilities: tuple[str, ...] = ()
    codec_certificates: tuple[bytes, ...] = ()
    """SHA-256 of sealed certificates that this node measured, the most useful first."""


@dataclass
class Announcer:
    """Makes announcements; `due` says whether there is something to say now."""

    me: Me
    clock: Clock
    incarnation: int
    local: Callable[[], Local]
    round_trips: Callable[[], dict[NodeId, float]]
    """Seconds, by peer."""
    members: Callable[[], int]
    accepts_udp: bool | None = None
    accepts_tcp: bool | None = None
    _sequence: int = 0
    _said: Announcement | None = field(default=None)
    _said_at: float = float("-inf")

    def due(self) -> Announcement | None:
        """The next announcement, if it is time for one."""
        now = self.clock.monotonic()
        age = now - self._said_at
        if age < URGENT_SECONDS:
            return None
        fresh = self._make()
        if self._said is not None and age < REFRESH_SECONDS and _urgent(fresh) == _urgent(self._said):
            calm = max(CALM_SECONDS, CALM_PER_MEMBER * self.members())
            if age < calm or _figures(fresh) == _figures(self._said):
                return None
        self._sequence += 1
        self._said, self._said_at = msgspec.structs.replace(fresh, sequence=self._sequence), now
        return self._said

    def _named(self) -> int:
        """How many certificates one announcement names: in a large mesh fewer, for its traffic is bounded."""
        share = CERTIFICATES_OF_ALL // max(1, self.members())
        return max(CERTIFICATES_LEAST, min(share, limits.CODEC_CERTIFICATES))

    def restart(self, incarnation: int) -> None:
        """Others think that this node is dead, or it slept: contradict with a new incarnation."""
        self.incarnation = incarnation
        self._sequence, self._said, self._said_at = 0, None, float("-inf")

    def _make(self) -> Announcement:
        local = self.local()
        trips = sorted(self.round_trips().items(), key=lambda item: item[1])[: limits.RTTS]
        return Announcement(
            mesh=self.me.mesh or b"",
            incarnation=self.incarnation,
            sequence=self._sequence,
            instance=self.me.instance,
            at=round(self.clock.time(), 1),
            name=self.me.name,
            version=self.me.version,
            protocol=limits.PROTOCOL,
            role=self.me.role,
            addresses=self.me.addresses,
            memory_total=local.memory_total,
            memory_free=local.memory_free // MEMORY_STEP * MEMORY_STEP,
            devices=local.devices[: limits.DEVICES],
            models=tuple(_rounded(offer) for offer in local.models[: limits.MODELS]),
            round_trips=tuple(
                RoundTrip(peer=node[:8], microseconds=int(_two_digits(seconds * 1e6)))
                for node, seconds in trips
            ),
            accepts_udp=self.accepts_udp,
            accepts_tcp=self.accepts_tcp,
            owner=self.me.owner,
            capabilities=local.capabilities,
            memory_lent=local.memory_lent // LENT_STEP * LENT_STEP,
            weights_per_second=int(_two_digits(local.pace.decode)),
            prefill_per_second=int(_two_digits(local.pace.prefill)),
            calibrated=local.pace.source == "calibrated",
            codec_certificates=local.codec_certificates[: self._named()],
        )


def _urgent(said: Announcement) -> object:
    models = tuple((m.name, m.load, m.status, m.context, m.lanes) for m in said.models)
    reach = said.addresses, said.accepts_udp, said.accepts_tcp
    return said.name, said.role, reach, said.owner, said.capabilities, models


def _figures(said: Announcement) -> object:
    lent = said.memory_lent // MEMORY_STEP
    return (
        said.memory_free,
        lent,
        said.weights_per_second,
        said.prefill_per_second,
        said.calibrated,
        frozenset(said.codec_certificates),
        said.models,
        {trip.peer for trip in said.round_trips},
    )


def _rounded(offer: ModelOffer) -> ModelOffer:
    """Speeds to two digits: a figure that flickers is not news."""
    return msgspec.structs.replace(
        offer,
        decode_tokens_per_second=_two_digits(offer.decode_tokens_per_second),
        prompt_tokens_per_second=_two_digits(offer.prompt_tokens_per_second),
    )


def _two_digits(value: float) -> float:
    if value <= 0:
        return 0.0
    step = 10.0 ** (floor(log10(value)) - 1)
    return round(value / step) * step
