"""A topology that is fixed by its owner: which node computes which layers, in a file that can be kept.

JSON: {"version": 1, "model": …, "manifest_sha256": …,
"stages": [{"node": …, "layer_start": …, "layer_end": …}]}.
It is never replaced by a plan; whether it fits is still checked.
"""

import msgspec

from meshllm_core.errors import ConfigError, ModelTooLarge
from meshllm_core.models.keys import MAX_LAYERS
from meshllm_core.models.units import show_bytes
from meshllm_core.planner.build import Builder
from meshllm_core.planner.cost import costs_of
from meshllm_core.planner.memory import MemoryModel
from meshllm_core.planner.model import SplitModel
from meshllm_core.planner.network import PlanNode
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.result import Candidate
from meshllm_core.planner.words import with_reasons

VERSION = 1
MAX_LOCK_BYTES = 1 << 20


class LockedStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Layers [layer_start, layer_end) on one node."""

    node: str
    """Its id in hex, or a name that only one node has."""
    layer_start: int
    layer_end: int


class TopologyLock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fixed topology, checked."""

    version: int
    model: str
    manifest_sha256: str
    """Of the package's manifest, or of what else describes the model: hex."""
    stages: tuple[LockedStage, ...]


def read_lock(data: bytes, where: str) -> TopologyLock:
    """A lock from a file's bytes; `where` names it in errors. Raises ConfigError."""
    if len(data) > MAX_LOCK_BYTES:
        raise _broken(where, f"it is larger than {show_bytes(MAX_LOCK_BYTES)}")
    try:
        lock = msgspec.json.decode(data, type=TopologyLock)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _broken(where, str(error)) from error
    if lock.version != VERSION:
        raise _broken(where, f"its version is {lock.version}, and only {VERSION} is known")
    if not 0 < len(lock.stages) <= MAX_LAYERS:
        raise _broken(where, f"it has {len(lock.stages)} stages")
    end = 0
    for number, stage in enumerate(lock.stages):
        if stage.layer_start != end:
            raise _broken(where, f"stage {number} begins at layer {stage.layer_start}, not at {end}")
        if not stage.layer_start < stage.layer_end <= MAX_LAYERS:
            raise _broken(where, f"stage {number} ends at layer {stage.layer_end}")
        end = stage.layer_end
    names = [stage.node for stage in lock.stages]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise _broken(where, f"the node {twice[:64]!r} stands in two stages")
    return lock


def write_lock(model: SplitModel, candidate: Candidate) -> bytes:
    """The file that fixes a candidate."""
    stages = tuple(LockedStage(stage.node, stage.first, stage.end) for stage in candidate.stages)
    lock = TopologyLock(VERSION, model.name, model.fingerprint, stages)
    return msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"


def honour(lock: TopologyLock, request: PlanRequest, where: str) -> Candidate:
    """The locked topology as a candidate, with the longest context that fits it.

    Raises ConfigError naming what does not match: the model, a node, the layers, a cut; ModelTooLarge.
    """
    _same_model(lock, request.model, where)
    nodes = tuple(_named(stage.node, request, where) for stage in lock.stages)
    cuts = (0, *(stage.layer_end for stage in lock.stages))
    memory = MemoryModel(request.model, request.settings, request.windows, request.idle_sequences)
    for stage in lock.stages:
        if not memory.legal[stage.layer_start, stage.layer_end]:
            raise _broken(
                where,
                f"no stage of layers {stage.layer_start} to {stage.layer_end} gives its own answers",
            )
    builder = Builder(request, costs_of(request.model, request.network, nodes), memory)
    order = range(len(nodes))
    short = ""
    for context in request.contexts:
        for lanes in request.lane_counts:
            found = builder.candidate(order, cuts, context, lanes)
            short = _shortage(found)
            if not short:
                found = builder.grown(found, request.contexts[0])
                if found.refused:
                    raise _broken(where, found.refused.rstrip("."))
                return with_reasons(
                    found,
                    "fixed by the lock file: no plan replaces it",
                    target_ms=request.target_ms,
                    assumed=builder.costs.assumed,
                )
    raise ModelTooLarge(
        f"The topology lock {where} cannot be used now: it does not fit: {short}.",
        hint="Free memory there, take a smaller context, or plan without it.",
    )


def _shortage(candidate: Candidate) -> str:
    for stage in candidate.stages:
        if stage.memory.total > stage.room:
            need, room = show_bytes(stage.memory.total), show_bytes(stage.room)
            return (
                f"layers {stage.first} to {stage.end} need {need} on {stage.node} ({stage.memory.explain()}; "
                f"{candidate.context} tokens × {candidate.lanes} lanes), which may use {room}"
            )
    return ""


def _same_model(lock: TopologyLock, model: SplitModel, where: str) -> None:
    if lock.model != model.name:
        raise _broken(where, f"it is for the model {lock.model[:64]!r}, not for {model.name!r}")
    if lock.manifest_sha256.lower() != model.fingerprint:
        raise _broken(
            where,
            f"it was made for another file of {model.name}: manifest_sha256 is {lock.manifest_sha256[:16]}…, "
            f"the model's is {model.fingerprint[:16]}…",
        )
    layers = lock.stages[-1].layer_end
    if layers != model.layers:
        raise _broken(where, f"its stages end at layer {layers}, and {model.name} has {model.layers}")


def _named(name: str, request: PlanRequest, where: str) -> PlanNode:
    node = next((node for node in request.network.nodes if node.name == name), None)
    if node is None:
        raise _broken(where, f"there is no node {name[:64]!r}")
    if node.excluded:
        raise _broken(where, f"{name} takes no part: {node.excluded}")
    return node


def _broken(where: str, what: str) -> ConfigError:
    return ConfigError(
        f"The topology lock {where} cannot be used: {what}.", hint="Correct it, or plan without it."
    )
