"""The node as it stands after the last event: one frozen value, the same for TUI, CLI and curl."""

from typing import Literal

import msgspec

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state.events import Device, FinishReason, NoticeLevel

NodeState = Literal["starting", "standby", "loading", "serving", "stopping"]
ModelStatus = Literal["requested", "downloading", "loading", "ready", "restarting", "failed"]

NOTICES_KEPT = 200
REQUESTS_KEPT = 64


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
    requests_served: int = 0
    restarts: int = 0
    error_code: str = ""
    error: str = ""
    hint: str = ""
    log_tail: tuple[str, ...] = ()


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
    devices: tuple[Device, ...] = ()
    models: tuple[ModelView, ...] = ()
    requests: tuple[RequestView, ...] = ()
    """Oldest first, at most REQUESTS_KEPT."""
    notices: tuple[Notice, ...] = ()
    """Oldest first, at most NOTICES_KEPT."""

    def model(self, model: ModelId) -> ModelView | None:
        """The row of a model, or None."""
        return next((view for view in self.models if view.id == model), None)
