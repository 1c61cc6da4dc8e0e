"""One run of a split model on its coordinator: stage files, offers, readiness, the ring of channels."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from meshllm_core.discovery.text import clean_text
from meshllm_core.engine.chain import form_of
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.protocol import LoadSpec, Stats
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.engine.types import GenerationRequest, Sampling
from meshllm_core.errors import EngineError, LinkClosed, PeerUnreachable, WireError
from meshllm_core.ids import ModelId, NodeId, RequestId
from meshllm_core.node.engine_log import engine_log
from meshllm_core.node.resident import resident
from meshllm_core.node.split_files import Lent, StageFiles
from meshllm_core.node.split_plan import SplitPlan, StagePlan
from meshllm_core.node.stage_desk import UNIT_OVERHEAD, DriverEnd, StageDesk
from meshllm_core.node.stage_pump import UnitPump
from meshllm_core.paths import Paths
from meshllm_core.serve import stage_calls as sc
from meshllm_core.state import events as ev
from meshllm_core.state.split_events import StageRow, StageState
from meshllm_core.transport.link import Channel

log = logging.getLogger(__name__)

STALL_SECONDS = 120.0
"""So long a stage may say nothing while it is made ready."""
TEXT = 300
NO_PROBES = "the model has no golden probes: the chain's own first token is the check"


@dataclass
class SplitRun:
    """Made for one plan. `start` returns when the chain answers; `lost` resolves when it is broken."""

    model: ModelId
    plan: SplitPlan
    chain: ChainSpec
    spec: LoadSpec
    """Of the driver, its file left out."""
    files: StageFiles
    paths: Paths
    desk: StageDesk
    open_call: Callable[[NodeId], Awaitable[Channel]]
    me: NodeId
    append: Callable[[ev.AnyEvent], None]
    on_stats: Callable[[Stats], None]
    engine: EngineProcess | None = None
    rows: list[StageRow] = field(default_factory=list)
    _controls: list[Channel] = field(default_factory=list)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    _own: Path = field(default_factory=Path)
    """The coordinator's stage, …"""
    _lent: dict[int, tuple[Lent, Lent]] = field(default_factory=dict)
    """… and for each other one what can be fetched here: the stage, and its golden probe."""
    unproved: set[NodeId] = field(default_factory=set)
    """Machines whose stage computes something else than the model, …"""
    unstored: dict[NodeId, str] = field(default_factory=dict)
    """… and those whose disk cannot take it, with their words."""
    _closing: bool = False

    def __post_init__(self) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pump = UnitPump(partial(self._lost_at, 0))
        self.rows = [self._row(index, stage) for index, stage in enumerate(self.plan.stages)]

    def _row(self, index: int, stage: StagePlan) -> StageRow:
        return StageRow(
            index=index,
            node=stage.machine.node.hex(),
            node_name=clean_text(stage.machine.name, 64),
            start=stage.start,
            end=stage.end,
            bytes=stage.memory.weights,
            state="assigned",
            memory_needed=stage.memory.total,
            rtt_ms=stage.rtt_ms,
            predicted_ms=stage.predicted_ms,
        )

    # Getting ready --------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Makes the files of this machine's stage, and of the others' where all layers are here.

        Raises ModelError: another plan would meet the same.
        """
        last = len(self.plan.stages) - 1
        for index in reversed(range(last + 1)):
            stage = self.plan.stages[index]
            if index == last:
                self._own = await self.files.stage(stage.start, stage.end, self._coming)
                continue
            lent, probe = Lent(), await self.files.probe(stage.start, stage.end)
            node = stage.machine.node
            if self.files.model.gives:
                file = await self.files.stage(stage.start, stage.end, lambda done, total: None)
                lent = await self.files.lend(file, node)
            self._lent[index] = lent, await self.files.lend(probe, node) if probe else Lent()

    def _coming(self, done: int, total: int) -> None:
        self._show(len(self.rows) - 1, "fetching", bytes_done=done, bytes_total=total)

    async def start(self) -> EngineProcess:
        """After `prepare`: last stage first; then the ring is closed. Raises what a stage failed with."""
        last = len(self.plan.stages) - 1
        engine = await self._start_driver(last)
        for index in reversed(range(last)):
            await self._named(index, self._offer(index))
        await asyncio.gather(*(self._named(index, self._until_ready(index)) for index in range(last)))
        await self._connect(engine, last)
        return engine

    async def _named(self, index: int, talk: Awaitable[None]) -> None:
        """Talk with the machine of a stage; a link that closes meanwhile says whose it was."""
        try:
            await talk
        except LinkClosed as error:
            raise PeerUnreachable(f"{self.rows[index].node_name} is lost: {error.message}.") from error

    async def _start_driver(self, index: int) -> EngineProcess:
        stage = self.plan.stages[index]
        probe = await self.files.probe(stage.start, stage.end)
        self._show(index, "loading")
        name = f"{self.model}.{stage.start}-{stage.end}"
        engine = EngineProcess(str(self.model), engine_log(self.paths.logs, name), self._driver_told)
        engine.on_unit = self._pump.put
        engine.on_refused_unit = self._driver_refused
        engine.on_chain_broken = self._broken
        engine.on_probing = lambda: self._show(index, "probing")
        self.engine = engine
        others = " and ".join(row.node_name for row in self.rows[:index])
        driver = msgspec.structs.replace(self.chain, role="driver", others=others)
        spec = msgspec.structs.replace(
            self.spec, files=(str(self._own),), chain=driver, probes=str(probe or "")
        )
        try:
            await engine.start(spec, lambda _: None)
        except ProbeFailed as error:
            # It may be the file that is damaged: it is to be made again.
            await asyncio.to_thread(self._own.unlink, missing_ok=True)
            self._show(index, "failed", detail=clean_text(error.message, TEXT))
            raise ProbeFailed(f"{stage.machine.name}: {error.message}", hint=error.hint) from error
        if probe is not None:
            self._show(index, "ready")
        return engine

    async def _offer(self, index: int) -> None:
        stage = self.plan.stages[index]
        file, probe = self._lent[index]
        node = stage.machine.node
        upstream = self.me if index == 0 else self.plan.stages[index - 1].machine.node
        channel = await self.open_call(node)
        self._controls.insert(0, channel)
        await channel.send(
            sc.encode(
                sc.Offer(
                    run=self.chain.run,
                    model=str(self.model)[:256],
                    index=index,
                    stages=len(self.plan.stages),
                    start=stage.start,
                    end=stage.end,
                    file_size=file.size or stage.memory.weights,
                    file_sha256=file.sha256,
                    source=self.files.model.reference,
                    package=self.files.model.package,
                    probes_sha256=probe.sha256,
                    probes_size=probe.size,
                    memory_needed=stage.memory.total,
                    upstream=upstream,
                    context=self.spec.context,
                    lanes=self.spec.lanes,
                    prefix_slots=self.spec.prefix_slots,
                    batch=self.spec.batch,
                    kv_type=self.spec.kv_type,
                    chain=self.chain,
                )
            )
        )

    async def _until_ready(self, index: int) -> None:
        channel = self._controls[index]
        name = self.rows[index].node_name
        while True:
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    body = await channel.receive()
            except TimeoutError:
                raise EngineError(f"{name} said nothing for {STALL_SECONDS:.0f} s about its stage.") from None
            if body is None:
                raise PeerUnreachable(f"{name} ended its stage while it was made ready.")
            message = sc.decode(body)
            if not isinstance(message, sc.Progress):
                raise WireError(f"{name} said something out of turn about its stage.")
            text = clean_text(message.text, TEXT)
            self._show(
                index,
                message.state,
                bytes_done=message.bytes_done,
                bytes_total=message.bytes_total,
                memory_measured=message.memory,
                detail=text,
            )
            if message.state == "failed":
                if message.unstored:
                    self.unstored[self.plan.stages[index].machine.node] = text
                if message.unproved:
                    self.unproved.add(self.plan.stages[index].machine.node)
                raise EngineError(f"{name} cannot compute its stage: {text}")
            if message.state == "ready":
                return

    async def _connect(self, engine: EngineProcess, last: int) -> None:
        run = self.chain.run
        self.desk.drivers[run] = DriverEnd(
            index=last,
            upstream=self.plan.stages[last - 1].machine.node,
            accept=engine.pass_unit,
            on_lost=partial(self._lost_at, last - 1),
            unit_limit=form_of(self.chain).frame_bytes + UNIT_OVERHEAD,
        )
        for index in range(last):
            downstream = self.plan.stages[index + 1].machine.node
            connect = sc.encode(sc.Connect(downstream=downstream))
            await self._named(index, self._controls[index].send(connect))
        await self._named(0, self._attach())
        for index in range(last):
            self._tasks.append(asyncio.create_task(self._watch(index), name=f"stage {index}"))
        self._tasks.append(asyncio.create_task(self._watch_engine(engine), name="split driver"))

    async def _attach(self) -> None:
        first = await self.open_call(self.plan.stages[0].machine.node)
        await first.send(sc.encode(sc.Attach(run=self.chain.run, index=0)))
        self._pump.start(first)

    async def prove(self, seconds: float) -> None:
        """One token through the whole ring, before anybody may use it. Raises MeshError.

        Where there are golden probes each stage has proved itself; else this is the only proof.
        """
        assert self.engine is not None
        last = self.rows[-1]
        if last.state != "ready":
            self._show(last.index, "probing", detail=NO_PROBES)
        await first_answer(self.engine, seconds)
        self._show(last.index, "ready", detail="", memory_measured=resident(self.engine.pid))

    # While it runs --------------------------------------------------------------------------------

    async def _watch(self, index: int) -> None:
        """Figures of a stage; its end is the chain's end."""
        name = self.rows[index].node_name
        reason, refused = f"{name} is lost", 0
        try:
            while (body := await self._controls[index].receive()) is not None:
                message = sc.decode(body)
                if isinstance(message, sc.Measured):
                    if message.refused > refused:
                        refused = message.refused
                        self._refused(name, clean_text(message.text, TEXT))
                    detail = f"{message.refused} units refused: {clean_text(message.text, TEXT)}"
                    self._show(
                        index, "ready", measured_ms=message.unit_ms, detail=detail if message.refused else ""
                    )
                elif isinstance(message, sc.Progress) and message.state == "failed":
                    reason = f"{name}: {clean_text(message.text, TEXT)}"
        except (LinkClosed, WireError) as error:
            reason = f"{name} is lost: {error.message}"
        self._show(index, "failed", detail=reason)
        self._broken(reason)

    def _driver_told(self, stats: Stats) -> None:
        self.on_stats(stats)
        last = self.rows[-1]
        if stats.stage_ms and last.state == "ready":
            held = resident(self.engine.pid) if self.engine is not None else 0
            self._show(last.index, "ready", measured_ms=stats.stage_ms, memory_measured=held)

    def _refused(self, name: str, text: str) -> None:
        if self.engine is not None:
            self.engine.unit_refused(f"{name} refused a unit of the chain: {text}")

    def _driver_refused(self, text: str) -> None:
        last = self.rows[-1]
        log.warning("stage %d of %s: %s", last.index, self.model, text)
        self._show(last.index, last.state, detail=text)

    async def _watch_engine(self, engine: EngineProcess) -> None:
        error = await engine.exited
        self._broken(error.message)

    def _lost_at(self, index: int, reason: str) -> None:
        """The machine of that stage, beside this one in the ring, takes or gives nothing more."""
        self._broken(f"{self.rows[index].node_name} is lost ({reason})")

    def _broken(self, reason: str) -> None:
        if self._closing or self.lost.done():
            return
        log.error("the chain of %s is broken: %s", self.model, reason)
        if self.engine is not None:
            again = "Its layers are shared out anew: send the request again in a moment."
            self.engine.break_chain(f"The chain is broken: {reason.rstrip('.')}. {again}")
        self.lost.set_result(reason)

    async def close(self, *, withdrawn: str = "") -> None:
        """Ends all stages."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.desk.drivers.pop(self.chain.run, None)
        for channel in self._controls:
            channel.abort()
        await self._pump.close()
        if self.engine is not None:
            await self.engine.close()
        self.files.close()
        if withdrawn:
            for row in list(self.rows):
                if row.state != "failed":
                    self._show(row.index, "withdrawn", detail=withdrawn)

    def _show(self, index: int, state: StageState, **changes: Any) -> None:
        self.rows[index] = msgspec.structs.replace(self.rows[index], state=state, **changes)
        self.append(
            ev.StageUpdated(
                at=time.time(), model=self.model, run=f"{self.chain.run:x}", stage=self.rows[index]
            )
        )


async def first_answer(engine: EngineProcess, seconds: float) -> None:
    """One token through the whole ring, before anybody may use it. Raises MeshError."""
    request = GenerationRequest(
        request_id=RequestId("probe"),
        prompt="Hello",
        max_tokens=2,
        sampling=Sampling(temperature=0),
        ignore_eos=True,
    )
    try:
        async with asyncio.timeout(seconds):
            async for _ in engine.generate(request):
                pass
    except TimeoutError:
        raise EngineError(f"The chain gave no token within {seconds:.0f} s.") from None
