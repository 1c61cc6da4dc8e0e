"""From what a person asked for to what the engine is told: file, context, device. Checked before loading."""

from dataclasses import dataclass

from meshllm_core.config import Settings
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.models.fit import EngineSettings, Fit, fit_model, plan_load
from meshllm_core.models.memory import usable_cores
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.node.placement import place
from meshllm_core.state.events import Device

GB = 10**9
PLACING_CONTEXT = 2048
"""Tokens per lane. With an automatic context a model goes onto the GPU as a whole if it fits there with this
much; a longer context is then taken if there is room, and is not worth computing layers on the processor."""
PARKING_SHARE = 0.10
"""Memory for idle prompts outside the KV cache, as a part of the cache. It comes out of the reserve."""


@dataclass(frozen=True)
class Prepared:
    """Everything an engine start needs; used again for each restart."""

    spec: LoadSpec
    file_bytes: int
    fit: Fit
    """What the engine will take, term by term."""
    notes: tuple[str, ...]
    """For a person."""


@dataclass(frozen=True)
class Wish:
    """What was asked for beside the model itself."""

    context_size: int
    """0 chooses."""
    lanes: int
    memory_free: int
    """Bytes of main memory."""
    memory_left: int | None
    """Bytes that --max-vram still allows; None is no limit."""
    devices: tuple[Device, ...]


def prepare_load(model: ResolvedModel, wish: Wish, settings: Settings) -> Prepared:
    """Plan the context and the device. Raises ModelTooLarge or ConfigError."""
    sequences = wish.lanes + settings.prefix_slots
    batch = max(settings.batch, sequences)  # every lane has its place in every step
    engine = EngineSettings(batch=batch, outputs=sequences, kv_type=settings.kv_type, sequences=sequences)
    facts = model.facts
    wanted = wish.context_size or min(facts.context_trained, PLACING_CONTEXT)
    whole = fit_model(
        facts, wanted, lanes=wish.lanes, memory_available=wish.memory_free, settings=engine
    ).model_bytes
    placement = place(
        facts,
        wish.devices,
        device=settings.device,
        memory_free=wish.memory_free,
        model_bytes=whole,
    )
    plan = plan_load(
        facts,
        context_requested=wish.context_size,
        lanes=wish.lanes,
        memory_available=placement.memory_available,
        max_memory=wish.memory_left,
        settings=engine,
    )
    spec = LoadSpec(
        files=tuple(str(path) for path in model.files),
        context=plan.context,
        lanes=plan.lanes,
        prefix_slots=settings.prefix_slots,
        parking_bytes=min(int(plan.fit.kv_bytes * PARKING_SHARE), plan.fit.reserve_bytes // 2),
        queue_limit=settings.queue_limit,
        batch=batch,
        prefill_chunk=settings.prefill_chunk,
        threads=settings.threads or usable_cores(),
        device=placement.device,
        gpu_layers=placement.gpu_layers,
        flash_attention=settings.flash_attention,
        kv_type=settings.kv_type,
        mmap=settings.mmap,
        mlock=settings.mlock,
    )
    return Prepared(
        spec=spec,
        file_bytes=facts.file_bytes,
        fit=plan.fit,
        notes=tuple(note for note in (model.note, placement.note, plan.note) if note),
    )
