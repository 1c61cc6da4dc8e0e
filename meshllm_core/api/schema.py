"""The public JSON of the management API, as types. `/api/snapshot` and `/api/events` are `state`'s own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from meshllm_core.api.schema_certify import CancelCertifyArguments, CertifyArguments
from meshllm_core.api.schema_config import ConfigureArguments
from meshllm_core.api.schema_mesh import (
    BlockArguments,
    DecisionArguments,
    ForgetArguments,
    InviteAnswer,
    InviteArguments,
    JoinArguments,
    LeaveArguments,
    LendingArguments,
    PeerStatus,
    PublicArguments,
    RevokeArguments,
)
from meshllm_core.api.schema_models import DeleteModelArguments, DownloadArguments, OneDownloadArguments
from meshllm_core.api.schema_split import LockPath, SplitStatus, StageStatus, WireDtype
from meshllm_core.state.mesh_events import InviteRow, Publication
from meshllm_core.state.snapshot import ModelView, NodeState, RefusalView

__all__ = [
    "ACTIONS",
    "ActionSpec",
    "CancelArguments",
    "GpuStatus",
    "Health",
    "InviteAnswer",
    "LoadArguments",
    "MeshHealth",
    "PeerStatus",
    "RuntimeStatus",
    "ServingHealth",
    "ServingStatus",
    "SplitStatus",
    "StageStatus",
    "Status",
    "StopArguments",
    "UnloadArguments",
    "WireDtype",
]

ServingStatus = Literal["healthy", "degraded", "starting", "idle", "unhealthy"]

ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A model's name or reference: no control characters, at most 1,024 characters."""


class MeshHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How the node stands to other nodes."""

    status: Literal["standalone", "connected", "disconnected"] = "standalone"
    """standalone: in no mesh. disconnected: others are known, and none of them can be reached."""


class ServingHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether requests would be answered."""

    status: ServingStatus


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `/health`."""

    mode: Literal["serving", "worker"]
    """serving when a model is ready."""
    mesh: MeshHealth
    serving: ServingHealth
    version: str
    pid: int
    uptime_seconds: float


class GpuStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator."""

    name: str
    description: str
    kind: str
    vram_bytes: int
    free_vram_bytes: int


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What computes on this node."""

    backend: str
    models: tuple[ModelView, ...]
    stages: tuple[StageStatus, ...]
    """One for each whole model, one for each stage of a split model, one for each stage for others."""
    splits: tuple[SplitStatus, ...]
    """The models that this node spread over machines."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `/api/status`: the node in one document, by the names the field's other systems use."""

    version: str
    node_state: NodeState
    node_status: str
    """The same as a sentence."""
    lending_paused: bool
    """The owner paused lending: nothing new is computed for others."""
    is_host: bool
    is_client: bool
    """A client asks the mesh and computes nothing for it."""
    llama_ready: bool
    """Whether a model answers now."""
    runtime: RuntimeStatus
    models: tuple[str, ...]
    """Every model of this node, ready or not."""
    serving_models: tuple[str, ...]
    """Those of this node that answer now."""
    available_models: tuple[str, ...]
    """What answers now, here or on another member, each name once."""
    requested_models: tuple[str, ...]
    """What was asked for, as it was written."""
    api_port: int
    api_url: str
    console_url: str
    my_hostname: str
    my_vram_gb: float
    """GB (10^9 bytes) that models can use: of the accelerators, or main memory when there are none."""
    gpus: tuple[GpuStatus, ...]
    node_id: str
    """This node's public key, hexadecimal."""
    mesh_id: str
    """Empty, as all the mesh's fields: the node is by itself."""
    mesh_name: str
    mesh_role: Literal["", "host", "client"]
    mesh_discovery_mode: Literal["", "mdns", "nostr", "off"]
    publication_state: Publication
    publication_detail: str
    my_addresses: tuple[str, ...]
    """Where others are told to reach this node."""
    my_addresses_left_out: tuple[str, ...]
    """What they are not told, each with the reason."""
    accepts_udp: bool | None
    """Whether another member could reach this node unasked; null while not known."""
    accepts_tcp: bool | None
    first_joined_mesh_ts: float
    """When it entered this mesh, seconds since the epoch."""
    peers: tuple[PeerStatus, ...]
    """The other members, by name."""
    invites: tuple[InviteRow, ...]
    """Without their secrets."""
    refusals: tuple[RefusalView, ...]
    """What was refused from outside, counted since the start."""
    inflight_requests: int
    pid: int
    started_at: float
    """Seconds since the epoch."""
    sequence: int


class LoadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `load`."""

    model: ModelName
    """A .gguf path, owner/repo[:QUANT][@revision], auto or default."""
    ctx_size: Annotated[int, msgspec.Meta(ge=0, le=4_194_304)] | None = None
    """Tokens one request may use; 0 chooses; absent takes the node's setting."""
    lanes: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    """Requests computed at the same time; absent takes the node's setting."""
    split: bool | None = None
    """Spread it over the mesh's machines where no machine holds it alone."""
    wire_dtype: WireDtype | None = None
    """Format of the rows between stages; absent is auto."""
    split_topology_lock: LockPath | None = None
    """A file on the node's machine that fixes which node computes which layers."""

    def __post_init__(self) -> None:
        """What is about a split is not ignored where there is none."""
        for name in ("wire_dtype", "split_topology_lock"):
            if getattr(self, name) is not None and not self.split:
                raise ValueError(f"the field `{name}` means something only where `split` is true")


class UnloadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `unload`."""

    model: ModelName
    """A name from `models` of the status."""


class StopArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stop` has no arguments."""


class CancelArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `cancel`."""

    request: Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
    """The id of a running request."""


@dataclass(frozen=True)
class ActionSpec:
    """Something a client may ask the node to do."""

    name: str
    summary: str
    """One line for help, palette and docs."""
    arguments: type[msgspec.Struct]


ACTIONS: Mapping[str, ActionSpec] = {
    spec.name: spec
    for spec in (
        ActionSpec("load", "Load a model, downloading it first if needed.", LoadArguments),
        ActionSpec("unload", "Stop serving a model and free its memory.", UnloadArguments),
        ActionSpec("download", "Download a model without loading it.", DownloadArguments),
        ActionSpec("pause_download", "Stop a download, keep what arrived.", OneDownloadArguments),
        ActionSpec("resume_download", "Let a download go on.", OneDownloadArguments),
        ActionSpec("cancel_download", "End a download, remove what arrived.", OneDownloadArguments),
        ActionSpec("delete_model", "Delete a model from this machine's disk.", DeleteModelArguments),
        ActionSpec("cancel", "Cancel a running request.", CancelArguments),
        ActionSpec("stop", "Stop the node after the running requests.", StopArguments),
        ActionSpec("invite", "Make an invite; founds a mesh where there is none.", InviteArguments),
        ActionSpec("join", "Join a mesh with an invite's token.", JoinArguments),
        ActionSpec("leave", "Leave the mesh.", LeaveArguments),
        ActionSpec("revoke", "Withdraw an invite or a membership.", RevokeArguments),
        ActionSpec("public", "List the mesh on public relays, or take the listing back.", PublicArguments),
        ActionSpec("lending", "Pause computing for others, or resume it.", LendingArguments),
        ActionSpec("approve", "Let a machine in that waits for it.", DecisionArguments),
        ActionSpec("refuse", "Do not let a machine in that waits for it.", DecisionArguments),
        ActionSpec("block", "Neither link nor route to a member; it stays one for others.", BlockArguments),
        ActionSpec("unblock", "Talk to a blocked member again.", BlockArguments),
        ActionSpec("forget", "Stop listing a member that is gone.", ForgetArguments),
        ActionSpec("certify", "Measure which codecs a model stands when it is split.", CertifyArguments),
        ActionSpec("cancel_certify", "End the measurement of codecs that runs.", CancelCertifyArguments),
        ActionSpec("configure", "Write a key of config.toml, or take it out.", ConfigureArguments),
    )
}
