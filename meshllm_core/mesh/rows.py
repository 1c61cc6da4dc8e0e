"""A member as the screens show it: gossip, link and certificate in one row of clean text."""

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.ids import NodeId, short
from meshllm_core.membership.certificates import Membership
from meshllm_core.membership.gossip_events import PeerState
from meshllm_core.mesh.peer_link import PeerLink
from meshllm_core.state.mesh_events import PeerModel, PeerRow
from meshllm_core.wire import limits
from meshllm_core.wire.announcement import PAUSED, Announcement, ModelOffer

SKEW_SHOWN = 5.0
"""Seconds of difference between clocks that are worth a word."""
RTT_CHANGE = 0.25
"""A round-trip time is shown anew when it changed by this share."""


@dataclass(frozen=True)
class Facts:
    """What is known of one member."""

    node: NodeId
    state: PeerState
    since: float
    """Seconds since the epoch at which its status began."""
    membership: Membership | None
    link: PeerLink | None
    owner: str
    skew: float
    reported_rtt: float = 0.0
    """Seconds, as a third member measured; 0: nobody did."""
    detail: str = ""
    name: str = ""
    """As it called itself when it was here last."""
    through: str = ""
    """Name of the member that has news of it, where it was not heard directly."""


def row_of(facts: Facts) -> PeerRow:
    """The row, with every text from outside cleaned."""
    said = facts.state.announcement
    membership = facts.membership
    link = facts.link
    source, rtt = _rtt(facts)
    return PeerRow(
        node=facts.node.hex(),
        name=_name(facts),
        status=facts.state.status,
        role=membership.role if membership else (said.role if said else "host"),
        since=facts.since,
        version=clean_text(said.version, limits.VERSION) if said else "",
        address=str(link.greeted.link.address) if link else "",
        addresses=tuple(clean_text(str(address), 64) for address in said.addresses) if said else (),
        path=_path(link),
        rtt_ms=rtt,
        rtt_source=source,
        reach=_reach(said, link, facts.state.status),
        clock_skew=round(facts.skew) if abs(facts.skew) > SKEW_SHOWN else 0.0,
        memory_total=said.memory_total if said else 0,
        memory_free=said.memory_free if said else 0,
        memory_lent=said.memory_lent if said else 0,
        weights_per_second=said.weights_per_second if said else 0,
        prefill_per_second=said.prefill_per_second if said else 0,
        calibrated=said.calibrated if said else False,
        lending_paused=said is not None and PAUSED in said.capabilities,
        devices=tuple(clean_text(device.name, limits.NAME) for device in said.devices) if said else (),
        models=tuple(_model(offer) for offer in said.models) if said else (),
        owner=facts.owner,
        may_invite=membership.may_invite if membership else False,
        admitted_by=membership.admitted_by.hex() if membership else "",
        expires_at=membership.expires_at if membership else 0.0,
        seen_through=facts.through,
        detail=_detail(facts),
    )


def _name(facts: Facts) -> str:
    """As it announced itself, or as it greeted before that, or as it was known; else its id."""
    said, link = facts.state.announcement, facts.link
    name = said.name if said else link.greeted.hello.name if link else facts.name
    return clean_text(name, limits.NAME) or short(facts.node)


def _path(link: PeerLink | None) -> Literal["", "quic", "tls"]:
    if link is None:
        return ""
    return "tls" if link.greeted.link.tls else "quic"


def _rtt(facts: Facts) -> tuple[Literal["direct", "reported", "unknown"], float]:
    if facts.state.status not in ("alive", "suspect"):
        return "unknown", 0.0
    if facts.link is not None and facts.state.round_trip:
        return "direct", round(facts.state.round_trip * 1000, 2)
    if facts.reported_rtt:
        return "reported", round(facts.reported_rtt * 1000, 2)
    return "unknown", 0.0


def _reach(
    said: Announcement | None, link: PeerLink | None, status: str
) -> Literal["both", "outgoing_only", "no_path", "unknown"]:
    if link is None:
        return "no_path" if status in ("alive", "suspect") else "unknown"
    if said is None or said.accepts_udp is None:
        return "unknown"
    return "both" if said.accepts_udp else "outgoing_only"


def _detail(facts: Facts) -> str:
    if facts.link is None and facts.state.status == "alive":
        through = f", seen through {facts.through}" if facts.through else ""
        return f"No path from here{through}. {facts.detail}".strip()
    if facts.detail:
        return facts.detail
    said = facts.state.announcement
    if said is not None and said.accepts_udp is False:
        return "It reaches others; nobody reaches it unasked (a firewall or NAT)."
    if abs(facts.skew) > SKEW_SHOWN:
        return f"Its clock is {abs(facts.skew):.0f} s {'ahead' if facts.skew > 0 else 'behind'}."
    return ""


def _model(offer: ModelOffer) -> PeerModel:
    return PeerModel(
        id=clean_text(offer.name, limits.MODEL_NAME),
        status=offer.status,
        architecture=clean_text(offer.architecture, limits.VERSION),
        parameters=offer.parameters,
        context=offer.context,
        lanes=offer.lanes,
        chat=offer.chat,
        embeddings=offer.embeddings,
        decode_tokens_per_second=offer.decode_tokens_per_second,
        active=offer.active,
        queued=offer.queued,
    )


@dataclass
class Told:
    """What was told of each member last: figures that only flicker are not told again."""

    _rows: dict[NodeId, PeerRow] = field(default_factory=dict)

    def news(self, node: NodeId, row: PeerRow) -> PeerRow | None:
        """The row if it differs in a way that a person would see."""
        before = self._rows.get(node)
        if before is not None:
            small = abs(row.rtt_ms - before.rtt_ms) <= RTT_CHANGE * max(before.rtt_ms, 0.2)
            if small and row.rtt_source == before.rtt_source:
                row = msgspec.structs.replace(row, rtt_ms=before.rtt_ms)
            if row == before:
                return None
        self._rows[node] = row
        return row

    def forget(self, node: NodeId) -> None:
        """It will be told anew."""
        self._rows.pop(node, None)

    def nodes(self) -> list[NodeId]:
        """Everybody who was told of."""
        return list(self._rows)
