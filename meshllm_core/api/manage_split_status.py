"""snapshot -> the stages and splits of `/api/status`. Pure."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from meshllm_core.api.schema_split import SplitStatus, StageStatus
from meshllm_core.state.snapshot import ModelView, NodeSnapshot, SplitView
from meshllm_core.state.split_events import HostedStage, StageRow

BACKEND = "llama.cpp"

T = TypeVar("T")


def stages_of(snapshot: NodeSnapshot) -> tuple[StageStatus, ...]:
    """Every stage that this node computes or has others compute: its models' in order, then hosted ones."""
    return tuple(_stages(snapshot))


def splits_of(snapshot: NodeSnapshot) -> tuple[SplitStatus, ...]:
    """Every model that this node spread over machines."""
    return tuple(_split(view, view.split) for view in snapshot.models if view.split is not None)


def _stages(snapshot: NodeSnapshot) -> Iterator[StageStatus]:
    for view in snapshot.models:
        if view.split is None:
            yield _whole(view)
        else:
            for row in view.split.stages:
                yield _placed(view, view.split, row)
    for stage in snapshot.hosted_stages:
        yield _hosted(snapshot, stage)


def _whole(view: ModelView) -> StageStatus:
    return StageStatus(
        stage_id=f"{view.id}/0",
        stage_index=0,
        model_id=view.id,
        kind="whole",
        backend=BACKEND,
        source_model_path=view.path,
        source_model_bytes=view.file_bytes,
        layer_start=0,
        layer_end=view.layers,
        state=view.status,
        ctx_size=view.context,
        lane_count=view.lanes,
        selected_device=view.device,
        error=view.error,
    )


def _placed(view: ModelView, split: SplitView, row: StageRow) -> StageStatus:
    return StageStatus(
        stage_id=f"{split.run}/{row.index}",
        stage_index=row.index,
        model_id=view.id,
        kind="split",
        backend=BACKEND,
        source_model_path=_known(view.path),
        source_model_bytes=_known(view.file_bytes),
        layer_start=row.start,
        layer_end=row.end,
        state=row.state,
        ctx_size=split.context,
        lane_count=split.lanes,
        error=row.detail if row.state == "failed" else "",
        run_id=split.run,
        stage_count=len(split.stages),
        node_id=row.node,
        node_name=row.node_name,
        bytes=row.bytes,
        bytes_done=row.bytes_done if row.bytes_total else msgspec.UNSET,
        bytes_total=_known(row.bytes_total),
        memory_needed_bytes=_known(row.memory_needed),
        memory_measured_bytes=_known(row.memory_measured),
        wire_dtype=split.dtype,
        wire_verdict=split.verdict,
        rtt_ms=_known(row.rtt_ms),
        predicted_ms=_known(row.predicted_ms),
        measured_ms=_known(row.measured_ms),
        detail=_known(row.detail),
    )


def _hosted(snapshot: NodeSnapshot, stage: HostedStage) -> StageStatus:
    return StageStatus(
        stage_id=f"{stage.run}/{stage.index}",
        stage_index=stage.index,
        model_id=stage.model,
        kind="hosted",
        backend=BACKEND,
        layer_start=stage.start,
        layer_end=stage.end,
        state=stage.state,
        error=stage.detail if stage.state == "failed" else "",
        run_id=stage.run,
        stage_count=stage.stages,
        node_id=snapshot.node,
        node_name=snapshot.name,
        coordinator=stage.coordinator,
        bytes=stage.bytes,
        bytes_done=stage.bytes_done if stage.bytes_total else msgspec.UNSET,
        bytes_total=_known(stage.bytes_total),
        memory_measured_bytes=_known(stage.memory_measured),
        pid=_known(stage.pid),
        units_computed=stage.units,
        detail=_known(stage.detail),
    )


def _split(view: ModelView, split: SplitView) -> SplitStatus:
    measured = [row.measured_ms for row in split.stages]
    return SplitStatus(
        model_id=view.id,
        run_id=split.run,
        stage_count=len(split.stages),
        stages_ready=sum(row.state == "ready" for row in split.stages),
        ctx_size=split.context,
        lane_count=split.lanes,
        wire_dtype=split.dtype,
        wire_verdict=split.verdict,
        sentence=split.sentence,
        reasons=split.reasons,
        predicted_ms_per_token=split.predicted_ms_per_token or None,
        measured_compute_ms_per_token=sum(measured) if measured and all(measured) else None,
        estimated_decode_network_ms_per_token=split.network_ms_per_token or None,
        decode_tpot_target_ms=split.target_ms or None,
        decode_tpot_target_met=_target_met(split),
        prefill_chunk_tokens=split.chunk or None,
        prefill_chunks_in_flight=split.ahead + 1 if split.chunk else None,
        tokens_in_flight=view.in_flight,
    )


def _target_met(split: SplitView) -> bool | None:
    """Where no speed is known the network alone can miss the target, but not meet it."""
    if not split.target_ms:
        return None
    if split.predicted_ms_per_token:
        return split.predicted_ms_per_token <= split.target_ms
    return False if split.network_ms_per_token > split.target_ms else None


def _known(value: T) -> T | msgspec.UnsetType:
    """Zero and an empty text stand for what is not known."""
    return value or msgspec.UNSET
