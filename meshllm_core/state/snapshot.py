"""The node as it stands after the last event: one frozen value, the same for TUI, CLI and curl."""

from typing import Literal

import msgspec

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state.certify_events import CertificationView
from meshllm_core.state.download_events import DownloadRow
from meshllm_core.state.event import NoticeLevel
from meshllm_core.state.events import Device, FinishReason
from meshllm_core.state.mesh_events import InviteRow, JoinStep, PeerRow, Publication, StepStatus, WaitingRow
from meshllm_core.state.pace_events import UNKNOWN, Pace
from meshllm_core.state.split_events import HostedStage, StageRow

NodeState = Literal["starting", "standby", "loading", "serving", "stopping"]
ModelStatus = Literal["requested", "downloading", "loading", "ready", "restarting", "failed"]

NOTICES_KEPT = 200
REQUESTS_KEPT = 64


class SplitView(msgspec.Struct, frozen=True, kw_only=True):
    """A model's way over several machines."""

    run: str
    stages: tuple[StageRow, ...]
    dtype: str
    verdict: str
    sentence: str
    reasons: tuple[str, ...]
    predicted_ms_per_token: float
    network_ms_per_token: float
    target_ms: float
    context: int
    lanes: int
    chunk: int = 0
    ahead: int = 0


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """One model's row."""

    id: ModelId
    ref: str
    status: ModelStatus
    requested_at: float
    bytes_done: int = 0
    bytes_total: int = 0
    load_fraction: float = 0.0
    path: str = ""
    file_bytes: int = 0
    memory_needed: int = 0
    memory_measured: int = 0
    pid: int = 0
    architecture: str = ""
    parameters: int = 0
    layers: int = 0
    context: int = 0
    lanes: int = 0
    device: str = ""
    chat: bool = False
    embeddings: bool = False
    load_seconds: float = 0.0
    decode_tokens_per_second: float = 0.0
    prompt_tokens_per_second: float = 0.0
    active: int = 0
    queued: int = 0
    cells_used: int = 0
    cells_total: int = 0
    in_flight: int = 0
    """Tokens between the stages of a split model at the same time; 0 where none are or it is whole."""
    requests_served: int = 0
    restarts: int = 0
    error_code: str = ""
    error: str = ""
    hint: str = ""
    log_tail: tuple[str, ...] = ()
    split: SplitView | None = None
    """How it is spread over machines; None: it is here as a whole."""


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """One request, running or among the last that ended."""

    id: RequestId
    model: ModelId
    route: str
    started_at: float
    prompt_tokens: int
    status: Literal["running"] | FinishReason = "running"
    cached_tokens: int = 0
    completion_tokens: int = 0
    queue_ms: float = 0.0
    first_token_ms: float = 0.0
    total_ms: float = 0.0
    decode_tokens_per_second: float = 0.0
    error: str = ""
    served_by: str = ""
    """Name of the node that computes it; empty: this one."""
    asked_by: str = ""
    """Name of the node that sent it; empty: a client of this one."""


class JoinLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the checklist."""

    step: JoinStep
    status: StepStatus
    detail: str = ""


class JoinView(msgspec.Struct, frozen=True, kw_only=True):
    """The latest try to join a mesh."""

    how: str
    started_at: float
    lines: tuple[JoinLine, ...]
    state: Literal["running", "joined", "failed"] = "running"
    message: str = ""
    hint: str = ""


class RefusalView(msgspec.Struct, frozen=True, kw_only=True):
    """How often something from outside was refused."""

    kind: str
    count: int
    last_at: float
    detail: str


class MeshView(msgspec.Struct, frozen=True, kw_only=True):
    """The mesh that this node is a member of."""

    mesh: str
    name: str
    role: Literal["host", "client"]
    founder: bool
    may_invite: bool
    port: int
    discovery: Literal["mdns", "nostr", "off"]
    entered_at: float
    addresses: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    accepts_udp: bool | None = None
    accepts_tcp: bool | None = None
    publication: Publication = "private"
    publication_detail: str = ""
    blocked: tuple[str, ...] = ()
    """Ids of the nodes that this one does not talk to."""
    invites: tuple[InviteRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()
    """Machines that a person has to let in, oldest first."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A line for a person."""

    at: float
    level: NoticeLevel
    source: str
    text: str


class NodeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a client may see. `sequence` is the last event folded in."""

    sequence: int = 0
    node_state: NodeState = "starting"
    name: str = ""
    version: str = ""
    pid: int = 0
    started_at: float = 0.0
    api_url: str = ""
    console_url: str = ""
    cpu: str = ""
    threads: int = 0
    memory_total: int = 0
    memory_free: int = 0
    memory_lent: int = 0
    """Bytes that a stage may take here."""
    lending_paused: bool = False
    """Nothing new is computed for others, until lending is resumed or the node starts again."""
    pace: Pace = UNKNOWN
    """How fast this machine computes, as far as it is kept; what it serves now may show better."""
    devices: tuple[Device, ...] = ()
    models: tuple[ModelView, ...] = ()
    downloads: tuple[DownloadRow, ...] = ()
    """Oldest first."""
    requests: tuple[RequestView, ...] = ()
    """Oldest first, at most REQUESTS_KEPT."""
    notices: tuple[Notice, ...] = ()
    """Oldest first, at most NOTICES_KEPT."""
    node: str = ""
    """This node's id, hexadecimal."""
    key_storage: str = ""
    mesh: MeshView | None = None
    """None: the node is by itself."""
    peers: tuple[PeerRow, ...] = ()
    """The other members, by name."""
    join: JoinView | None = None
    """The latest try to join; None: there was none."""
    refusals: tuple[RefusalView, ...] = ()
    hosted_stages: tuple[HostedStage, ...] = ()
    """What this node computes for other machines' models."""
    certification: CertificationView | None = None
    """The latest measurement of codecs; None: there was none."""

    def model(self, model: ModelId) -> ModelView | None:
        """The row of a model, or None."""
        return next((view for view in self.models if view.id == model), None)
