"""A stage that this node computes for another machine's model: fetched, loaded, connected, released."""

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from meshllm_core.config import Settings
from meshllm_core.engine.chain import head_of
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import (
    LinkClosed,
    MeshError,
    ModelTooLarge,
    StorageError,
    WireError,
    describe,
)
from meshllm_core.ids import NodeId
from meshllm_core.mesh.tasks import Tasks
from meshllm_core.models.cache import Cache
from meshllm_core.models.fit import EngineSettings, fit_model
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.memory import usable_cores
from meshllm_core.models.units import show_bytes
from meshllm_core.node.engine_log import engine_log
from meshllm_core.node.resident import resident
from meshllm_core.node.stage_pump import UnitPump
from meshllm_core.node.stage_source import StageFetch
from meshllm_core.paths import Paths
from meshllm_core.serve import stage_calls as sc
from meshllm_core.state import events as ev
from meshllm_core.state.split_events import HostedStage, StageState
from meshllm_core.transport.link import Channel

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 0.25
MEASURED_SECONDS = 1.0
SMOOTHING = 0.2
ASKED_LIMIT = 256
"""Decodes whose time is taken at once."""


@dataclass(frozen=True)
class Surroundings:
    """What a stage needs of its node."""

    settings: Settings
    paths: Paths
    append: Callable[[ev.AnyEvent], None]
    memory_usable: Callable[[], int]
    """Bytes that a stage may take now."""
    open_transfer: Callable[[NodeId], Awaitable[Channel]]
    open_call: Callable[[NodeId], Awaitable[Channel]]
    closed: Callable[[], str] = lambda: ""
    """Why no stage is taken now, in a sentence; empty: stages are taken."""


@dataclass
class StageHost:
    """One run's stage. `run` lasts until its coordinator ends the channel."""

    around: Surroundings
    control: Channel
    coordinator: NodeId
    coordinator_name: str
    offer: sc.Offer
    engine: EngineProcess | None = None
    units: int = 0
    refused: int = 0
    held: int = 0
    """Bytes that it takes of what this node lends."""
    _row: HostedStage = field(init=False)
    _pump: UnitPump = field(init=False)
    _asked: dict[int, float] = field(default_factory=dict)
    """When decodes came that are being computed, by their numbers."""
    _unit_ms: float = 0.0
    """Of decodes alone: a chunk of a prompt takes longer, and tells nothing of a token."""
    _complaint: str = ""
    _tasks: Tasks = field(default_factory=Tasks)

    def __post_init__(self) -> None:
        offer = self.offer
        self._pump = UnitPump(self._lost)
        self._row = HostedStage(
            run=f"{offer.run:x}",
            model=offer.model,
            coordinator=self.coordinator_name,
            index=offer.index,
            stages=offer.stages,
            start=offer.start,
            end=offer.end,
            bytes=offer.file_size,
            state="assigned",
        )

    async def run(self) -> str:
        """Returns why it ended. Raises nothing but cancellation."""
        try:
            self._check_memory(self.offer.memory_needed)
            fetch = self._fetch()
            await self._tell("fetching", bytes_total=self.offer.file_size)
            stage = await fetch.stage()
            file = stage if isinstance(stage, Path) else stage.file
            # Until the coordinator ends it, `models prune` leaves the file alone.
            with Cache(self.around.paths.models).in_use((file,)):
                self._check_memory(await asyncio.to_thread(self._measured_need, file))
                with tempfile.TemporaryDirectory(prefix="meshllm-probes-") as folder:
                    await self._load(file, await fetch.probes(stage, Path(folder)))
                await self._tell("ready", memory=self._resident())
                reason = await self._serve()
        except (MeshError, OSError) as error:
            reason = describe(error)
            self._show("failed", detail=reason)
            failed = sc.Progress(
                state="failed",
                text=reason[:400],
                unproved=isinstance(error, ProbeFailed),
                unstored=isinstance(error, StorageError),
            )
            with contextlib.suppress(LinkClosed):
                await self.control.send(sc.encode(failed))
                await self.control.finish()
        finally:
            await self._tasks.stop()
            await self._pump.close()
            if self.engine is not None:
                await self.engine.close()
        self.around.append(ev.StageReleased(at=time.time(), run=self._row.run, reason=reason))
        return reason

    def accept(self, unit: bytes) -> None:
        """A unit came from the machine before."""
        if self.engine is not None:
            head = head_of(unit)
            if head is not None and head.urgent:
                if len(self._asked) >= ASKED_LIMIT:
                    self._asked.clear()  # They were refused, or are void.
                self._asked[head.number] = time.monotonic()
            self.engine.pass_unit(unit)

    def _measured_need(self, file: Path) -> int:
        """What the file itself says that it takes: a limit does not depend on a coordinator's word."""
        offer = self.offer
        sequences = offer.lanes + offer.prefix_slots
        settings = EngineSettings(
            batch=offer.batch, outputs=offer.batch, kv_type=offer.kv_type, sequences=sequences
        )
        facts = inspect_model(file)
        fit = fit_model(facts, offer.context, lanes=offer.lanes, memory_available=0, settings=settings)
        return fit.tensor_bytes + fit.kv_bytes

    def _check_memory(self, needed: int) -> None:
        self.held = 0
        usable = self.around.memory_usable()
        if needed > usable:
            raise ModelTooLarge(
                f"Layers {self.offer.start} to {self.offer.end - 1} need "
                f"{show_bytes(needed)}, and {show_bytes(usable)} can be lent.",
                hint="Raise --max-vram there, or free some memory.",
            )
        self.held = needed

    def _fetch(self) -> StageFetch:
        said = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= PROGRESS_SECONDS or done >= total:
                said = now
                self._show("fetching", bytes_done=done, bytes_total=total)
                self._tasks.start(self._say("fetching", done, total), "stage progress")

        return StageFetch(
            self.offer,
            self.around.settings,
            self.around.paths,
            self.coordinator,
            self.coordinator_name,
            self.around.open_transfer,
            progress,
        )

    async def _load(self, file: Path, probes: Path | None) -> None:
        await self._tell("loading")
        offer, settings = self.offer, self.around.settings
        spec = LoadSpec(
            files=(str(file),),
            context=offer.context,
            lanes=offer.lanes,
            prefix_slots=offer.prefix_slots,
            queue_limit=0,
            batch=offer.batch,
            threads=settings.threads or usable_cores(),
            device=settings.device,
            kv_type=offer.kv_type,
            mmap=settings.mmap,
            mlock=settings.mlock,
            chain=offer.chain,
            probes=str(probes or ""),
        )
        name = f"{offer.model}.{offer.start}-{offer.end}"
        engine = EngineProcess(name, engine_log(self.around.paths.logs, name), lambda _: None)
        engine.on_unit, engine.on_refused_unit = self._computed, self._complained
        engine.on_probing = self._probing
        self.engine = engine
        try:
            await engine.start(spec, lambda _: None)
        except ProbeFailed:
            # It may be the file that is damaged: it is to be fetched again.
            await asyncio.to_thread(file.unlink, missing_ok=True)
            raise

    def _probing(self) -> None:
        self._show("probing")
        self._tasks.start(self._say("probing", 0, 0), "stage progress")

    async def _serve(self) -> str:
        """Until the coordinator ends the channel, or the engine ends."""
        assert self.engine is not None
        reading = asyncio.create_task(self._obey(), name="stage control")
        telling = asyncio.create_task(self._measure(), name="stage figures")
        try:
            ends: set[asyncio.Future[Any]] = {reading, self.engine.exited}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self.engine.exited.done():
                raise self.engine.exited.result()
            return await reading
        finally:
            for task in (reading, telling):
                task.cancel()
            await asyncio.gather(reading, telling, return_exceptions=True)

    async def _obey(self) -> str:
        try:
            while (body := await self.control.receive()) is not None:
                message = sc.decode(body)
                if not isinstance(message, sc.Connect):
                    raise WireError("A coordinator said something else than where to send units.")
                channel = await self.around.open_call(NodeId(message.downstream))
                await channel.send(sc.encode(sc.Attach(run=self.offer.run, index=self.offer.index + 1)))
                self._pump.start(channel)
        except LinkClosed:
            return f"{self.coordinator_name} is lost"
        return f"{self.coordinator_name} needs it no more"

    async def _measure(self) -> None:
        told = -1
        while True:
            await asyncio.sleep(MEASURED_SECONDS)
            if self.units + self.refused == told:
                continue
            told = self.units + self.refused
            message = sc.Measured(
                unit_ms=self._unit_ms, units=self.units, refused=self.refused, text=self._complaint[:400]
            )
            self._show("ready", units=self.units, memory_measured=self._resident())
            with contextlib.suppress(LinkClosed):
                await self.control.send(sc.encode(message))

    def _computed(self, unit: bytes) -> None:
        self.units += 1
        head = head_of(unit)
        if head is not None and (asked := self._asked.pop(head.number, None)) is not None:
            took = (time.monotonic() - asked) * 1000
            self._unit_ms = took if not self._unit_ms else self._unit_ms + SMOOTHING * (took - self._unit_ms)
        self._pump.put(unit)

    def _complained(self, text: str) -> None:
        self.refused += 1
        self._complaint = text

    def _lost(self, reason: str) -> None:
        """The next machine takes nothing: the coordinator will notice too; the channel tells it why."""
        log.warning("stage %d of %s: %s", self.offer.index, self.offer.model, reason)
        self.control.abort()

    def _resident(self) -> int:
        assert self.engine is not None
        return resident(self.engine.pid)

    async def _tell(self, state: sc.State, *, bytes_total: int = 0, memory: int = 0) -> None:
        self._show(state, bytes_total=bytes_total, memory_measured=memory)
        await self.control.send(sc.encode(sc.Progress(state=state, bytes_total=bytes_total, memory=memory)))

    async def _say(self, state: sc.State, done: int, total: int) -> None:
        with contextlib.suppress(LinkClosed):
            message = sc.Progress(state=state, bytes_done=done, bytes_total=total)
            await self.control.send(sc.encode(message))

    def _show(self, state: StageState, **changes: int | str) -> None:
        pid = self.engine.pid if self.engine is not None and state == "ready" else 0
        self._row = msgspec.structs.replace(self._row, state=state, pid=pid, **changes)
        self.around.append(ev.StageHosted(at=time.time(), stage=self._row))
