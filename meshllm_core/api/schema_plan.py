"""The public JSON of planning over the live machines: what may run where, how fast, and why."""

from typing import Annotated, Literal

import msgspec

ModelRef = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
Source = Literal["loaded", "disk", "catalog"]
"""Where what is known of a model comes from: a model of this node, a file here, the catalogue's figures."""
LaunchKind = Literal["whole", "split", "none"]


class PlanArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be planned, and what is supposed."""

    model: ModelRef
    """A loaded model's name, a .gguf path, a downloaded model's name, a name of the catalogue, default."""
    hop_ms: Annotated[float, msgspec.Meta(ge=0, le=10_000)] | None = None
    """Milliseconds one way to suppose for every link; absent: what was measured."""
    ctx_size: Annotated[int, msgspec.Meta(ge=0, le=4_194_304)] = 0
    """Tokens of one lane; 0: the node's setting, which may choose."""
    lanes: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    """Requests computed at the same time; 0: the node's setting."""
    target_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] = 0.0
    """Time per output token to aim at; 0: 33.3 ms."""


class PlannedStage(msgspec.Struct, frozen=True, kw_only=True):
    """Layers [start, end) on one machine. Sizes in bytes, times in milliseconds per decoded token."""

    node_name: str
    start: int
    end: int
    bytes: int
    """Of its weights."""
    memory_needed: int
    """Weights, KV cache, compute buffer."""
    room: int
    """What it may take there."""
    compute_ms: float | None = None
    """null: that machine's speed is not known."""
    hop_ms: float | None = None
    """One way from where the token comes from; null: not known."""
    link: str = ""
    """How hop_ms is known: measured, relayed, assumed, unknown; local where there is no link."""


class PlanCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run the model. Times in milliseconds per decoded token; null: not known."""

    title: str
    """`attic alone`, `attic|desk`."""
    price: str
    """The same with its speed and what costs it, for a person."""
    stages: tuple[PlannedStage, ...]
    ctx_size: int
    lanes: int
    total_ms: float | None = None
    tokens_per_second: float | None = None
    network_ms: float | None = None
    compute_ms: float | None = None
    transfer_ms: float = 0.0
    overhead_ms: float = 0.0
    target_met: bool | None = None
    wire_dtype: str = ""
    """Empty where nothing crosses."""
    wire_verdict: str = ""
    spare_bytes: int = 0
    """Left on the machine with the least."""
    refused: str = ""
    """Why no format of rows may be used between its stages; it is never chosen then."""
    reasons: tuple[str, ...] = ()
    launch: LaunchKind = "none"
    """How the node would run exactly this: `load`, `load` with split, or not at all from here."""
    launch_note: str = ""
    """Why it cannot be launched from here, and what would do; or what launching means."""


class PlanExclusion(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that has no part in the plan."""

    node_name: str
    standby: bool
    """Whether it could step in."""
    reason: str


class PlanRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """No way to run the model as asked."""

    missing: tuple[str, ...]
    would_fit: tuple[str, ...]


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `plan`. Either there are candidates, the best first, or a refusal."""

    model: str
    ref: str
    """What `load` takes."""
    source: Source
    layers: int
    bytes: int
    driver: str
    """This machine: it takes the requests."""
    machines: int
    """That were weighed, this one included."""
    hop_ms: float | None
    target_ms: float
    sentence: str
    candidates: tuple[PlanCandidate, ...] = ()
    left_out: int = 0
    """Further candidates, each worse than those told."""
    excluded: tuple[PlanExclusion, ...] = ()
    refusal: PlanRefusal | None = None
    notes: tuple[str, ...] = ()
    """What had to be assumed."""


class PlanModelsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`plan/models` has no arguments."""


class PlanModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be planned."""

    name: str
    ref: str
    """What `plan` and `load` take."""
    source: Source
    bytes: int
    parameters: int = 0
    """0: not known."""


class PlanModels(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `plan/models`: loaded models, then those on this disk, then the catalogue, each once."""

    models: tuple[PlanModel, ...]
