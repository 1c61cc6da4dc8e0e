"""The closed set of things that can have happened on a node. Past tense, frozen, small.

Tokens are not events: they travel in a request's own stream. A model's speed is sampled
(`ThroughputMeasured`), at most once a second per model.
Times are seconds since the epoch, given by the caller.
"""

from typing import Literal

import msgspec

from meshllm_core.ids import ModelId, RequestId
from meshllm_core.state.certify_events import CertificationEnded as CertificationEnded
from meshllm_core.state.certify_events import CertificationProgressed as CertificationProgressed
from meshllm_core.state.certify_events import CertificationStarted as CertificationStarted
from meshllm_core.state.download_events import DownloadChanged as DownloadChanged
from meshllm_core.state.download_events import DownloadRemoved as DownloadRemoved
from meshllm_core.state.event import Event as Event
from meshllm_core.state.event import NoticeLevel as NoticeLevel
from meshllm_core.state.mesh_events import (
    AddressesChanged,
    BlocksChanged,
    IdentityLoaded,
    InvitesChanged,
    JoinEnded,
    JoinStarted,
    JoinStepped,
    LendingChanged,
    MeshEntered,
    MeshLeft,
    PeerForgotten,
    PeerUpdated,
    PublicationChanged,
    ReachMeasured,
    RefusalCounted,
    WaitingChanged,
)
from meshllm_core.state.pace_events import PaceLearned as PaceLearned
from meshllm_core.state.split_events import SplitInterrupted as SplitInterrupted
from meshllm_core.state.split_events import SplitPlanned as SplitPlanned
from meshllm_core.state.split_events import StageHosted as StageHosted
from meshllm_core.state.split_events import StageReleased as StageReleased
from meshllm_core.state.split_events import StageUpdated as StageUpdated

FinishReason = Literal["stop", "length", "tool_calls", "cancelled", "error"]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One compute device as llama.cpp lists it."""

    name: str
    """llama.cpp's name, for example CPU or CUDA0; the value that `--device` takes."""
    description: str
    """The device's own name."""
    kind: Literal["cpu", "gpu", "integrated_gpu", "accelerator"]
    memory_total: int
    """Bytes."""
    memory_free: int
    """Bytes free when the list was made."""


class NodeStarted(Event, frozen=True, kw_only=True, tag="node_started"):
    """The node's HTTP servers are listening."""

    name: str
    version: str
    pid: int
    api_url: str
    """Base of the OpenAI endpoint, without /v1."""
    console_url: str
    """Base of the management API."""


class NodeStopping(Event, frozen=True, kw_only=True, tag="node_stopping"):
    """The node takes no new requests and is shutting down."""

    reason: str


class HardwareDetected(Event, frozen=True, kw_only=True, tag="hardware_detected"):
    """What this machine has."""

    cpu: str
    threads: int
    """Threads the engine uses by default: physical cores."""
    memory_total: int
    memory_free: int
    devices: tuple[Device, ...]


class MemoryMeasured(Event, frozen=True, kw_only=True, tag="memory_measured"):
    """Free main memory, or what stages may take of it, changed noticeably."""

    memory_free: int
    memory_lent: int = 0
    """Bytes that a stage may take here; the owner's limit and what is loaded are considered."""


class ModelRequested(Event, frozen=True, kw_only=True, tag="model_requested"):
    """Somebody asked for a model; it has a row from now on."""

    model: ModelId
    ref: str
    """What was asked for: a path, owner/repo:QUANT, auto…"""


class ModelNamed(Event, frozen=True, kw_only=True, tag="model_named"):
    """What was asked for turned out to be this model: the row takes its public name."""

    model: ModelId
    """The name so far."""
    name: ModelId


class ModelDownloadProgressed(Event, frozen=True, kw_only=True, tag="model_download_progressed"):
    """Bytes arrived from the hub (at most four events a second)."""

    model: ModelId
    bytes_done: int
    bytes_total: int


class ModelLoadProgressed(Event, frozen=True, kw_only=True, tag="model_load_progressed"):
    """The engine is reading the file."""

    model: ModelId
    fraction: float
    """0 to 1."""
    path: str = ""
    file_bytes: int = 0
    memory_needed: int = 0
    """Predicted bytes: tensors + KV cache + compute buffer."""


class ModelReady(Event, frozen=True, kw_only=True, tag="model_ready"):
    """The engine answers requests for this model."""

    model: ModelId
    pid: int
    architecture: str
    parameters: int
    context: int
    """Tokens one request may use, prompt and answer."""
    lanes: int
    """Requests computed at the same time."""
    memory_measured: int
    """Bytes resident in the engine process after loading."""
    device: str
    chat: bool
    embeddings: bool
    load_seconds: float
    layers: int = 0
    """Blocks of the model; all of them are here."""


class ModelFailed(Event, frozen=True, kw_only=True, tag="model_failed"):
    """The model could not be made ready, or its engine failed too often."""

    model: ModelId
    code: str
    message: str
    hint: str


class ModelUnloaded(Event, frozen=True, kw_only=True, tag="model_unloaded"):
    """The model was removed on request; its row goes away."""

    model: ModelId


class EngineExited(Event, frozen=True, kw_only=True, tag="engine_exited"):
    """The engine process of a model ended without being asked to."""

    model: ModelId
    reason: Literal["signal", "out_of_memory", "bad_file", "exit"]
    detail: str
    log_tail: tuple[str, ...]
    restarting: bool


class RequestStarted(Event, frozen=True, kw_only=True, tag="request_started"):
    """A request was accepted."""

    request: RequestId
    model: ModelId
    route: str
    """The HTTP path it came by; `mesh` when another node sent it."""
    prompt_tokens: int
    served_by: str = ""
    """Name of the node that computes it; empty: this one."""
    asked_by: str = ""
    """Name of the node that sent it; empty: a client of this one."""


class RequestFinished(Event, frozen=True, kw_only=True, tag="request_finished"):
    """A request ended, in whatever way."""

    request: RequestId
    model: ModelId
    reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    queue_ms: float
    """From arrival to the first step that computed it."""
    first_token_ms: float
    """From arrival to the first token (time to first token)."""
    total_ms: float
    decode_tokens_per_second: float
    error: str = ""


class ThroughputMeasured(Event, frozen=True, kw_only=True, tag="throughput_measured"):
    """A sample of what a model's engine is doing now."""

    model: ModelId
    decode_tokens_per_second: float
    prompt_tokens_per_second: float
    active: int
    queued: int
    cells_used: int
    """KV cache cells that hold something."""
    cells_total: int
    in_flight: int = 0
    """Tokens between the stages of a split model at the same time, at most, since the last sample."""


class NoticeLogged(Event, frozen=True, kw_only=True, tag="notice_logged"):
    """A line for a person."""

    level: NoticeLevel
    source: str
    text: str


AnyEvent = (
    NodeStarted
    | NodeStopping
    | HardwareDetected
    | MemoryMeasured
    | PaceLearned
    | ModelRequested
    | ModelNamed
    | ModelDownloadProgressed
    | ModelLoadProgressed
    | ModelReady
    | ModelFailed
    | ModelUnloaded
    | DownloadChanged
    | DownloadRemoved
    | EngineExited
    | RequestStarted
    | RequestFinished
    | ThroughputMeasured
    | NoticeLogged
    | IdentityLoaded
    | MeshEntered
    | MeshLeft
    | AddressesChanged
    | ReachMeasured
    | PeerUpdated
    | PeerForgotten
    | JoinStarted
    | JoinStepped
    | JoinEnded
    | PublicationChanged
    | LendingChanged
    | BlocksChanged
    | InvitesChanged
    | WaitingChanged
    | RefusalCounted
    | SplitPlanned
    | StageUpdated
    | StageHosted
    | SplitInterrupted
    | StageReleased
    | CertificationStarted
    | CertificationProgressed
    | CertificationEnded
)


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the log, as `/api/events` sends it."""

    sequence: int
    event: AnyEvent
