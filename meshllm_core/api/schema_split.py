"""The public JSON of stages: whole models, models that are split, and what is computed for others."""

from typing import Annotated, Literal

import msgspec

from meshllm_core.state.snapshot import ModelStatus
from meshllm_core.state.split_events import StageState

WireDtype = Literal["auto", "f32", "f16", "bf16", "q8", "q8x"]
"""In what format rows travel between stages; auto: the smallest that is certified exact for the model."""
LockPath = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A file on the node's machine."""

Absent = msgspec.UnsetType
_ABSENT = msgspec.UNSET


class StageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A run of layers [layer_start, layer_end). What is not known, or means nothing for its kind, is absent.

    kind whole: the model is on this node as a whole. split: one stage of a model that this node spread over
    machines, wherever it is. hosted: a stage that this node computes for another machine's model.
    Times are milliseconds per decoded token: predicted_ms and measured_ms of computing, rtt_ms of the link
    to the stage before it in the ring. bytes are the weights it loads; bytes_done of bytes_total it fetched.
    """

    stage_id: str
    stage_index: int
    model_id: str
    kind: Literal["whole", "split", "hosted"]
    backend: str
    layer_start: int
    layer_end: int
    """One past the last layer; 0 until the model's file has been read."""
    state: Literal[ModelStatus, StageState]
    error: str
    source_model_path: str | Absent = _ABSENT
    source_model_bytes: int | Absent = _ABSENT
    ctx_size: int | Absent = _ABSENT
    lane_count: int | Absent = _ABSENT
    selected_device: str | Absent = _ABSENT
    run_id: str | Absent = _ABSENT
    """Of the assignment of stages; a new one with every plan."""
    stage_count: int | Absent = _ABSENT
    node_id: str | Absent = _ABSENT
    node_name: str | Absent = _ABSENT
    """The machine that computes it."""
    coordinator: str | Absent = _ABSENT
    """Name of the machine that asked for a hosted stage."""
    bytes: int | Absent = _ABSENT
    bytes_done: int | Absent = _ABSENT
    bytes_total: int | Absent = _ABSENT
    memory_needed_bytes: int | Absent = _ABSENT
    """Predicted: weights, KV cache, buffers."""
    memory_measured_bytes: int | Absent = _ABSENT
    wire_dtype: str | Absent = _ABSENT
    """Of the rows between stages."""
    wire_verdict: str | Absent = _ABSENT
    """Why that format may be used."""
    rtt_ms: float | Absent = _ABSENT
    predicted_ms: float | Absent = _ABSENT
    measured_ms: float | Absent = _ABSENT
    pid: int | Absent = _ABSENT
    units_computed: int | Absent = _ABSENT
    """Parts of steps that a hosted stage computed."""
    detail: str | Absent = _ABSENT
    """What it waits for, or why it failed."""


class SplitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A model that this node spread over machines, as a whole; its stages are in `stages`.

    estimated_decode_network_ms_per_token is what the links cost each token. decode_tpot_target_met says
    whether the predicted time per output token meets decode_tpot_target_ms; null without a target, or where
    too little is measured to tell. Times are null where nothing was measured.
    """

    model_id: str
    run_id: str
    stage_count: int
    stages_ready: int
    ctx_size: int
    lane_count: int
    wire_dtype: str
    wire_verdict: str
    sentence: str
    """What the split costs, for a person."""
    reasons: tuple[str, ...]
    predicted_ms_per_token: float | None
    measured_compute_ms_per_token: float | None
    """Of all stages together, once each was measured."""
    estimated_decode_network_ms_per_token: float | None
    decode_tpot_target_ms: float | None
    decode_tpot_target_met: bool | None
    prefill_chunk_tokens: int | None
    """Tokens of a prompt that travel together, chosen by what was measured of machines and links."""
    prefill_chunks_in_flight: int | None
    """Chunks of one prompt that may be between its driver and the stages."""
    tokens_in_flight: int
    """That were between the stages at the same time, at most, within the last second of work."""
