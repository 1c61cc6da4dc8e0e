"""What can have happened to a model that is split over several machines. Same rules as `events`."""

from typing import Literal

import msgspec

from meshllm_core.ids import ModelId
from meshllm_core.state.event import Event

NOT_SPLIT = "It is not split: "
"""How the notice begins that says why a model is loaded as a whole although a split was asked for."""

StageState = Literal["assigned", "fetching", "loading", "probing", "ready", "failed", "withdrawn"]


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a split model, as its coordinator knows it. All texts are cleaned for a terminal."""

    index: int
    node: str
    """Id of the machine, hexadecimal."""
    node_name: str
    start: int
    end: int
    """Layers [start, end)."""
    bytes: int
    """Of the weights that the stage loads."""
    state: StageState
    bytes_done: int = 0
    bytes_total: int = 0
    """Of the file that it fetches; 0 when it has it."""
    memory_needed: int = 0
    """Predicted bytes: weights, KV cache, compute buffer."""
    memory_measured: int = 0
    rtt_ms: float = 0.0
    """To the stage before it in the ring of the chain; 0 when not known."""
    predicted_ms: float = 0.0
    """Computing one token, as planned; 0 when nothing was measured."""
    measured_ms: float = 0.0
    """Computing one token, as measured in this run."""
    detail: str = ""
    """Why it failed, or what it waits for."""


class SplitPlanned(Event, frozen=True, kw_only=True, tag="split_planned"):
    """A model is being spread over machines."""

    model: ModelId
    run: str
    """Hexadecimal; a new one with every plan."""
    stages: tuple[StageRow, ...]
    dtype: str
    """Of the rows between stages."""
    verdict: str
    """Why that dtype may be used, in words."""
    sentence: str
    """What the split costs, for a person."""
    reasons: tuple[str, ...]
    predicted_ms_per_token: float
    network_ms_per_token: float
    target_ms: float
    """0: no target was set."""
    context: int
    lanes: int
    chunk: int = 0
    """Tokens of a prompt that travel together; 0: not known."""
    ahead: int = 0
    """Chunks of a prompt that may be on their way while one is computed."""


class SplitInterrupted(Event, frozen=True, kw_only=True, tag="split_interrupted"):
    """A model that is spread over machines answers nobody: it is spread anew, or waits for machines."""

    model: ModelId
    reason: str
    """What was lost or is missing, and what happens next. Cleaned for a terminal."""


class StageUpdated(Event, frozen=True, kw_only=True, tag="stage_updated"):
    """Something about a stage changed; its whole row."""

    model: ModelId
    run: str
    stage: StageRow


class HostedStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that this node computes for another machine's model."""

    run: str
    model: str
    coordinator: str
    """Name of the machine that asked for it."""
    index: int
    stages: int
    start: int
    end: int
    bytes: int
    state: StageState
    bytes_done: int = 0
    bytes_total: int = 0
    pid: int = 0
    memory_measured: int = 0
    units: int = 0
    """Parts of steps that were computed."""
    detail: str = ""


class StageHosted(Event, frozen=True, kw_only=True, tag="stage_hosted"):
    """A stage that this node computes for another machine changed; its whole row."""

    stage: HostedStage


class StageReleased(Event, frozen=True, kw_only=True, tag="stage_released"):
    """This node computes that stage no more."""

    run: str
    reason: str
