"""What can have happened to a node as a member of a mesh. Same rules as `events`."""

from typing import Literal, get_args

import msgspec

from meshllm_core.state.event import Event

PeerStatus = Literal["alive", "suspect", "down", "left"]
Publication = Literal["private", "publishing", "public", "publish_failed"]
StepStatus = Literal["waiting", "running", "passed", "failed", "skipped"]
JoinStep = Literal[
    "token", "interface", "address", "identity", "version", "clock", "admission", "reachability"
]
JOIN_STEPS: tuple[JoinStep, ...] = get_args(JoinStep)
"""The lines of the checklist, in order."""


class PeerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that another node serves."""

    id: str
    status: Literal["loading", "ready"]
    architecture: str
    parameters: int
    context: int
    lanes: int
    chat: bool
    embeddings: bool
    decode_tokens_per_second: float
    active: int
    queued: int


class PeerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Another member, as this node knows it now. All texts are cleaned for a terminal."""

    node: str
    """Its id, hexadecimal."""
    name: str
    status: PeerStatus
    role: Literal["host", "client"]
    since: float
    """When `status` began."""
    version: str = ""
    address: str = ""
    """The address that works now; empty without a link."""
    addresses: tuple[str, ...] = ()
    """What the node says of itself."""
    path: Literal["", "quic", "tls"] = ""
    """How calls travel; empty without a link."""
    rtt_ms: float = 0.0
    rtt_source: Literal["direct", "reported", "unknown"] = "unknown"
    reach: Literal["both", "outgoing_only", "no_path", "unknown"] = "unknown"
    """outgoing_only: it reaches others, nobody reaches it unasked. no_path: this node has no link to it."""
    seen_through: str = ""
    """Name of the member that this node hears of it through; empty: from itself."""
    clock_skew: float = 0.0
    """Seconds by which its clock is ahead of this node's."""
    memory_total: int = 0
    memory_free: int = 0
    memory_lent: int = 0
    """Bytes that a stage of another member's model may take there; 0: none."""
    weights_per_second: int = 0
    """Bytes of weights that a decode goes through in a second there; 0: not measured."""
    prefill_per_second: int = 0
    """Bytes of weights times tokens of a prompt, in a second there; 0: not measured."""
    calibrated: bool = False
    """Whether these come from a calibration there, and not from answers."""
    lending_paused: bool = False
    """Its owner paused lending: it computes nothing new for others."""
    devices: tuple[str, ...] = ()
    models: tuple[PeerModel, ...] = ()
    owner: str = ""
    """Owner id in short form with what is known of it, for example `verified 3fa9…`; empty: none."""
    may_invite: bool = False
    admitted_by: str = ""
    """Id of the member that admitted it."""
    expires_at: float = 0.0
    """When its membership ends."""
    detail: str = ""
    """A sentence for a person where something is not as it should be."""


class InviteRow(msgspec.Struct, frozen=True, kw_only=True):
    """An invite that was made; its secret is known only to those who hold the token."""

    id: str
    """First 10 hex digits of the secret's hash."""
    role: Literal["host", "client"]
    uses: int
    """0: any number."""
    used: int
    created_at: float
    expires_at: float
    created_by: str
    state: Literal["open", "used_up", "expired", "revoked"]
    used_by: tuple[str, ...] = ()
    """Names of the members that joined with it, oldest first, as far as this node knows them."""
    approve: bool = False
    """Who comes with it waits until a person lets it in, at the node that made it and at no other."""


class WaitingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that holds an invite and waits until a person lets it in. All texts are cleaned."""

    node: str
    """Its id, which it proved."""
    name: str
    """As it calls itself, which proves nothing."""
    address: str
    """Where it came from."""
    role: Literal["host", "client"]
    since: float
    invite: str
    """Id of the invite that it holds."""


class IdentityLoaded(Event, frozen=True, kw_only=True, tag="identity_loaded"):
    """The node has its key."""

    node: str
    storage: str
    """Where the key is kept, for a person."""


class MeshEntered(Event, frozen=True, kw_only=True, tag="mesh_entered"):
    """The node is a member of a mesh from now on."""

    mesh: str
    name: str
    role: Literal["host", "client"]
    founder: bool
    may_invite: bool
    port: int
    """UDP and TCP port of the node."""
    discovery: Literal["mdns", "nostr", "off"]


class MeshLeft(Event, frozen=True, kw_only=True, tag="mesh_left"):
    """The node belongs to no mesh any more."""

    reason: str


class AddressesChanged(Event, frozen=True, kw_only=True, tag="addresses_changed"):
    """Where others can reach this node, and what is not told to them and why."""

    addresses: tuple[str, ...]
    left_out: tuple[str, ...]
    """Sentences, for example `172.17.0.1 on docker0: a bridge of containers`."""


class ReachMeasured(Event, frozen=True, kw_only=True, tag="reach_measured"):
    """Another member tried to reach this node unasked."""

    accepts_udp: bool | None
    accepts_tcp: bool | None


class PeerUpdated(Event, frozen=True, kw_only=True, tag="peer_updated"):
    """Something about another member changed; its whole row."""

    peer: PeerRow


class LendingChanged(Event, frozen=True, kw_only=True, tag="lending_changed"):
    """The owner paused lending, or resumed it."""

    paused: bool


class BlocksChanged(Event, frozen=True, kw_only=True, tag="blocks_changed"):
    """Which nodes this one does not talk to, whoever let them in."""

    nodes: tuple[str, ...]
    """Ids, hexadecimal, in the order in which they were blocked."""


class PeerForgotten(Event, frozen=True, kw_only=True, tag="peer_forgotten"):
    """A member that is gone for long, or was revoked, is no longer listed."""

    node: str


class JoinStarted(Event, frozen=True, kw_only=True, tag="join_started"):
    """Somebody asked to join a mesh; the checklist begins."""

    how: str
    """For a person: by token, by picture, by discovery."""


class JoinStepped(Event, frozen=True, kw_only=True, tag="join_stepped"):
    """A line of the checklist changed."""

    step: JoinStep
    status: StepStatus
    detail: str = ""


class JoinEnded(Event, frozen=True, kw_only=True, tag="join_ended"):
    """The checklist is through."""

    joined: bool
    message: str
    hint: str = ""


class PublicationChanged(Event, frozen=True, kw_only=True, tag="publication_changed"):
    """Whether the mesh is listed on public relays."""

    publication: Publication
    detail: str = ""


class InvitesChanged(Event, frozen=True, kw_only=True, tag="invites_changed"):
    """An invite was made, used, revoked or ran out; all that are worth showing."""

    invites: tuple[InviteRow, ...]


class WaitingChanged(Event, frozen=True, kw_only=True, tag="waiting_changed"):
    """Who waits to be let in; at most 16."""

    waiting: tuple[WaitingRow, ...]


class RefusalCounted(Event, frozen=True, kw_only=True, tag="refusal_counted"):
    """Something from outside was refused (at most one event a second per kind)."""

    kind: str
    """One word or two, for example `wrong key`."""
    count: int
    """In total since the node started."""
    detail: str
