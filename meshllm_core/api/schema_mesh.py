"""The mesh's part of the public JSON: peers in the status, and the arguments of the mesh's actions."""

from typing import Annotated, Literal

import msgspec

from meshllm_core.state.mesh_events import PeerStatus as PeerState

TOKEN_LIMIT = 1024
"""Characters of an invite's token, with whatever blanks a mail program put between its groups."""
CLIENTS_LIMIT = 1000
LONGEST_INVITE = 10 * 365 * 86_400
"""Seconds."""

_TEXT = r"^[^\x00-\x1f\x7f]+$"
MemberName = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=_TEXT)]
"""A node's or an invite's id: hexadecimal, or the beginning of it that only one has, six digits or more."""
Label = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Another member of the mesh. All texts are cleaned for a terminal."""

    id: str
    """Its node id: the public key, hexadecimal."""
    name: str
    hostname: str
    role: Literal["host", "client"]
    state: PeerState
    state_since: float
    """Seconds since the epoch."""
    version: str
    address: str
    """The address that works now; empty without a link."""
    addresses: tuple[str, ...]
    path: Literal["", "quic", "tls"]
    """How requests travel; empty without a link."""
    rtt_ms: float
    latency_source: Literal["direct", "reported", "unknown"]
    """direct: measured by this node; reported: by another member."""
    reach: Literal["both", "outgoing_only", "no_path", "unknown"]
    seen_through: str
    """Name of the member that this node hears of it through; empty: from itself."""
    clock_skew_seconds: float
    """By how much its clock is ahead of this node's."""
    vram_gb: float
    """GB (10^9 bytes) that models can use on it."""
    memory_bytes: int
    free_memory_bytes: int
    lent_memory_bytes: int
    """What a stage of another member's model may take there; 0: nothing."""
    blocked: bool
    """This node neither links nor routes to it, by its owner's choice."""
    lending_paused: bool
    """Its owner paused lending: it computes nothing new for others."""
    gpus: tuple[str, ...]
    models: tuple[str, ...]
    """Every model of the node, ready or not."""
    serving_models: tuple[str, ...]
    """Those that answer now."""
    owner: str
    may_invite: bool
    admitted_by: str
    membership_expires_at: float
    detail: str
    """A sentence where something is not as it should be."""


class InviteArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `invite`; what is absent is chosen by the node."""

    uses: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    """How many machines may join with it; 0: any number."""
    expires_seconds: Annotated[float, msgspec.Meta(ge=1, le=LONGEST_INVITE)] | None = None
    """So long it can be used."""
    role: Literal["host", "client"] | None = None
    """host: computes for others. client: only asks."""
    may_invite: bool | None = None
    """Whether those who join may invite others in turn."""
    approve: bool | None = None
    """Whether those who come wait until `approve` lets them in."""


class InviteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `invite`: the only place where the token is ever told."""

    token: str
    id: str
    role: Literal["host", "client"]
    uses: int
    expires_at: float


class JoinArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `join`. The token is a secret: it is written to no log."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=TOKEN_LIMIT)]


class LeaveArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`leave` has no arguments."""


class RevokeArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `revoke`."""

    target: MemberName
    """An invite or a member."""
    confirm: bool | None = None
    """Needed where members would go with it."""


class PublicArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `public`."""

    on: bool
    name: Label | None = None
    region: Label | None = None
    max_clients: Annotated[int, msgspec.Meta(ge=1, le=CLIENTS_LIMIT)] | None = None
    """So many clients may come in by the listing at the same time."""


class LendingArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `lending`."""

    on: bool
    """False: nothing new is computed for others, until it is true again or the node starts anew."""


class LendingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `lending`: what still runs for others is let run."""

    lending: bool
    requests_running: int
    stages_running: int


class DecisionArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `approve` and `refuse`."""

    node: MemberName
    """A machine that waits to be let in."""


class BlockArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `block` and `unblock`."""

    node: MemberName
    """A member that this node is not to talk to, or is to talk to again."""


class ForgetArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `forget`."""

    node: MemberName
    """A member that is gone."""
