"""One model from request to end: resolve, check that it fits, start its engine, restart it when it dies."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.engine.protocol import Stats
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import EngineExited, MeshError
from meshllm_core.ids import ModelId
from meshllm_core.models.cache import Cache
from meshllm_core.models.fit import verify
from meshllm_core.node.engine_log import engine_log
from meshllm_core.node.model_row import ModelRow
from meshllm_core.node.prepare import Prepared
from meshllm_core.node.resident import resident
from meshllm_core.state import events as ev

log = logging.getLogger(__name__)

Prepare = Callable[["ModelHost"], Awaitable[Prepared]]


@dataclass(kw_only=True)
class ModelHost(ModelRow):
    """A model's row, its engine and its supervision."""

    prepare: Prepare
    restart_limit: int

    async def run(self) -> None:
        """Until the model is unloaded or given up. Errors end as ModelFailed, never as an exception."""
        try:
            prepared = await self.prepare(self)
            with Cache(self.paths.models).in_use(tuple(Path(file) for file in prepared.spec.files)):
                await self._supervise(prepared)
        except MeshError as error:
            self._fail(error)

    async def _supervise(self, prepared: Prepared) -> None:
        """Start, wait for the end, start again, until it was closed or ended too often."""
        while not self.closing:
            if not await self._may_restart(await self._exit(prepared)):
                return

    async def _exit(self, prepared: Prepared) -> EngineExited:
        """Start an engine and wait for its end. Raises what starting again would not change."""
        try:
            return await (await self._start(prepared)).exited
        except EngineExited as error:
            if error.reason != "signal" or self.closing:
                raise
            return error  # somebody ended it while it was loading

    async def close(self) -> None:
        """End the engine; running requests get an error."""
        self.closing = True
        if self.engine is not None:
            await self.engine.close()
            self.engine = None

    async def _start(self, prepared: Prepared) -> EngineProcess:
        began = time.monotonic()
        self._set("loading", detail="the engine is reading the file")
        self.append(
            ev.ModelLoadProgressed(
                at=time.time(),
                model=self.id,
                fraction=0.0,
                path=prepared.spec.files[0],
                file_bytes=prepared.file_bytes,
                memory_needed=prepared.fit.model_bytes,
            )
        )
        engine = EngineProcess(self.id, engine_log(self.paths.logs, self.id), self._on_stats)
        self.engine = engine
        await engine.start(prepared.spec, self._on_progress)
        self._ready(engine, prepared, time.monotonic() - began)
        return engine

    def _ready(self, engine: EngineProcess, prepared: Prepared, seconds: float) -> None:
        facts = engine.facts
        measured = resident(engine.pid)
        self.append(
            ev.ModelReady(
                at=time.time(),
                model=self.id,
                pid=engine.pid,
                architecture=facts.architecture,
                parameters=facts.parameters,
                layers=facts.layers,
                context=facts.context,
                lanes=facts.lanes,
                memory_measured=measured,
                device=prepared.spec.device,
                chat=bool(facts.chat_template),
                embeddings=facts.embeddings,
                load_seconds=seconds,
            )
        )
        for note in prepared.notes:
            self._notice("info", note)
        surprise = verify(prepared.fit, measured)
        if surprise:
            self._notice("warning", surprise)
        self._set("ready")

    async def _may_restart(self, error: EngineExited) -> bool:
        """Note the exit; wait a little longer each time; give up after `restart_limit` within 10 minutes."""
        restarting = self._recent_failures() < self.restart_limit and not self.closing
        if self.engine is not None:
            await self.engine.close()
        self.engine = None
        self.append(
            ev.EngineExited(
                at=time.time(),
                model=self.id,
                reason=error.reason,  # type: ignore[arg-type]
                detail=error.message,
                log_tail=error.log_tail,
                restarting=restarting,
            )
        )
        if not restarting:
            self._set("failed", detail=str(error))
            return False
        self._set("loading", detail="its engine ended and is being restarted")
        await self._back_off()
        return True

    def _on_progress(self, fraction: float) -> None:
        self.append(ev.ModelLoadProgressed(at=time.time(), model=self.id, fraction=fraction))

    def _on_stats(self, stats: Stats) -> None:
        self._failures.clear()  # it told its speed, so it computed: the model is not what ends its engines
        self.append(throughput(self.id, stats))


def throughput(model: ModelId, stats: Stats) -> ev.ThroughputMeasured:
    """What an engine says of its speed, as an event."""
    return ev.ThroughputMeasured(
        at=time.time(),
        model=model,
        decode_tokens_per_second=stats.decode_tokens_per_second,
        prompt_tokens_per_second=stats.prompt_tokens_per_second,
        active=stats.active,
        queued=stats.queued,
        cells_used=stats.cells_used,
        cells_total=stats.cells_total,
        in_flight=stats.in_flight,
    )
