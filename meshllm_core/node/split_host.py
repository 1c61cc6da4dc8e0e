"""A model that is spread over machines: plan, start, watch, plan anew when a stage is lost."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from meshllm_core.certify.record import backend_of
from meshllm_core.config import Settings
from meshllm_core.discovery.text import clean_text
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import MeshError, ModelTooLarge, NodeError, NotInMesh, describe
from meshllm_core.ids import NodeId
from meshllm_core.models.cache import Cache
from meshllm_core.models.fit import EngineSettings
from meshllm_core.models.memory import usable_cores
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.node.host import throughput
from meshllm_core.node.model_row import ModelRow
from meshllm_core.node.split_gate import Gate
from meshllm_core.node.split_plan import Alone, Machine, SplitPlan, plan_split
from meshllm_core.node.split_plan import Wish as PlanWish
from meshllm_core.node.split_run import SplitRun, first_answer
from meshllm_core.node.stage_desk import StageDesk
from meshllm_core.node.stage_source import hub_reference
from meshllm_core.planner.real_model import PlannedModel, planned_model
from meshllm_core.planner.wire import Wire
from meshllm_core.state import events as ev
from meshllm_core.transport.link import Channel

log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0
"""So long the first token of a new chain may take."""
MACHINES_SECONDS = 1.0
"""So often those who wait for machines look again, and …"""
LENT_STEP = 64 << 20
"""… what counts as a difference in what one lends, in bytes."""
CHUNK_ROWS = 128
"""Tokens of a prompt in one unit: large enough to compute well, small enough to keep all stages at work."""


class SplitMesh(Protocol):
    """The mesh as a split sees it."""

    @property
    def me(self) -> NodeId:
        """This node."""

    @property
    def desk(self) -> StageDesk:
        """Where calls about stages arrive."""

    def machines(self) -> Sequence[Machine]:
        """Every member that is there, this node last."""

    async def settled_links(self) -> dict[tuple[str, str], float]:
        """Round-trip times in ms by names, as far as anybody measured them."""

    async def open_call(self, node: NodeId) -> Channel:
        """A CALL channel to that node. Raises PeerUnreachable, LinkClosed."""


@dataclass(kw_only=True)
class SplitHost(ModelRow):
    """A model's row, as `ModelHost` is for one that is here as a whole."""

    settings: Settings
    resolve: Callable[["SplitHost"], Awaitable[ResolvedModel]]
    mesh: SplitMesh
    instead: Callable[["SplitHost", str], None]
    """Loads the model here as a whole in place of this host; gets the sentence that says why."""
    wire_dtype: str
    topology_lock: str
    """A file; empty: plan freely."""
    patient: bool
    """Whether to wait for machines where those that are there do not suffice."""
    _run: SplitRun | None = None
    _said: str = ""

    async def run(self) -> None:
        """Until the model is unloaded or given up. Errors end as ModelFailed, never as an exception."""
        try:
            model = await self.resolve(self)
            source = await asyncio.to_thread(lambda: open_source(local_files(model.files[0])))
            rules = StageRules(source)
            planned = await asyncio.to_thread(planned_model, model.facts, source)
            while not self.closing:
                reason = await self._once(model, rules, planned)
                if self.closing or (reason and not await self._may_go_on(reason)):
                    return
        except MeshError as error:
            self._fail(error)

    async def _once(self, model: ResolvedModel, rules: StageRules, planned: PlannedModel) -> str:
        """One plan from start to end; why it ended, "" when machines have come or gone before it began.

        Raises where trying again would change nothing.
        """
        began = time.monotonic()
        try:
            plan, wire = await self._planned(model, planned)
        except (ModelTooLarge, NotInMesh) as error:
            if not self.patient:
                raise
            await self._more_machines(error)
            return ""
        if isinstance(plan, Alone):
            return self._alone(plan)
        run = self._made(model, rules, plan, wire)
        self._run = run
        self._tell(run, wire)
        reason = ""
        try:
            self.engine = engine = await run.start()
            await first_answer(engine, ANSWER_SECONDS)
            self._ready(engine, model, run, time.monotonic() - began)
            self.patient = True  # What was lost may come back.
            reason = await run.lost
        except MeshError as error:
            reason = describe(error)
        finally:
            self.engine, self.memory_needed = None, 0
            if not self.closing:
                self._set("loading", detail="a machine was lost; the model is spread anew")
            await run.close(withdrawn=reason or "the model was unloaded")
        return reason

    async def _planned(self, model: ResolvedModel, planned: PlannedModel) -> tuple[SplitPlan | Alone, Wire]:
        self._set("loading", detail="its layers are being shared out")
        if len(self.mesh.machines()) < 2:
            raise NotInMesh(
                f"{self.id} can only be split over machines of a mesh, and this node knows no other.",
                hint="`meshllm invite` here, `meshllm join` on another machine; then load it again.",
            )
        links = await self.mesh.settled_links()
        machines = self.mesh.machines()
        kinds = tuple(one.kind for one in machines if not one.excluded)
        gate = Gate(self.paths, model, self.wire_dtype, backend_of(kinds), self.mesh.me)
        wish = PlanWish(
            planned=planned,
            context=self.context_size,
            lanes=self.lanes,
            settings=EngineSettings(batch=self.settings.batch, kv_type=self.settings.kv_type),
            idle=self.settings.prefix_slots,
            wires=gate.wire,
            lock=Path(self.topology_lock) if self.topology_lock else None,
        )
        plan = await asyncio.to_thread(plan_split, wish, machines, links)
        if isinstance(plan, Alone):
            return plan, Wire("", "", "")
        wire = gate.wire([stage.end for stage in plan.stages[:-1]])
        if isinstance(wire, str):
            raise NodeError(wire, hint="Use `--wire-dtype f32`, or measure it: `meshllm certify`.")
        return plan, wire

    async def _more_machines(self, error: MeshError) -> None:
        """Returns when the machines are others than now."""
        text = clean_text(f"{self.id} waits for machines: {error}", 400)
        if text != self._said:
            self._said = text
            self._notice("warning", text)
        self._set("loading", detail=text)
        before = self._crowd()
        while not self.closing:
            await asyncio.sleep(MACHINES_SECONDS)
            if self._crowd() != before:
                return

    def _crowd(self) -> list[tuple[NodeId, int, str]]:
        return [(one.node, one.lent // LENT_STEP, one.excluded) for one in self.mesh.machines()]

    def _alone(self, plan: Alone) -> str:
        """It fits on one machine: here it is loaded as a whole, elsewhere that is for a person to do."""
        if plan.machine.node != self.mesh.me:
            raise NodeError(
                f"{plan.sentence} It is not split.",
                hint=f"Load it on {plan.machine.name}: `meshllm load` there; this node routes to it.",
            )
        self.closing = True
        self.instead(self, plan.sentence)
        return ""

    def _made(self, model: ResolvedModel, rules: StageRules, plan: SplitPlan, wire: Wire) -> SplitRun:
        candidate, settings = plan.candidate, self.settings
        shape = rules.shape(plan.stages[-1].start, plan.stages[-1].end)
        sequences = candidate.lanes + settings.prefix_slots
        chain = ChainSpec(
            role="stage",
            run=secrets.randbits(61) + 1,
            width=shape.width * shape.streams,
            rows=settings.batch,
            sequences=sequences,
            positions=candidate.context,
            dtype=wire.dtype,
            vocabulary=model.facts.vocabulary if rules.sideband else 0,
            layers=rules.layers,
            parameters=model.facts.parameters,
            chunk=min(CHUNK_ROWS, settings.batch),
        )
        spec = LoadSpec(
            files=(),
            context=candidate.context,
            lanes=candidate.lanes,
            prefix_slots=settings.prefix_slots,
            queue_limit=settings.queue_limit,
            batch=settings.batch,
            threads=settings.threads or usable_cores(),
            device=settings.device,
            kv_type=settings.kv_type,
            mmap=settings.mmap,
            mlock=settings.mlock,
        )
        self.memory_needed = plan.stages[-1].memory.total
        return SplitRun(
            model=self.id,
            plan=plan,
            rules=rules,
            chain=chain,
            spec=spec,
            source=hub_reference(Cache(self.paths.models), model.files[0]),
            paths=self.paths,
            desk=self.mesh.desk,
            open_call=self.mesh.open_call,
            me=self.mesh.me,
            append=self.append,
            on_stats=lambda stats: self.append(throughput(self.id, stats)),
        )

    def _tell(self, run: SplitRun, wire: Wire) -> None:
        plan, estimate = run.plan, run.plan.candidate.estimate
        self.append(
            ev.SplitPlanned(
                at=time.time(),
                model=self.id,
                run=f"{run.chain.run:x}",
                stages=tuple(run.rows),
                dtype=wire.dtype,
                verdict=wire.note,
                sentence=clean_text(plan.sentence, 400),
                reasons=tuple(clean_text(reason, 300) for reason in plan.reasons),
                predicted_ms_per_token=estimate.total_ms or 0.0,
                network_ms_per_token=estimate.network_ms or 0.0,
                target_ms=plan.target_ms,
                context=plan.candidate.context,
                lanes=plan.candidate.lanes,
            )
        )

    def _ready(self, engine: EngineProcess, model: ResolvedModel, run: SplitRun, seconds: float) -> None:
        facts = engine.facts
        self.append(
            ev.ModelReady(
                at=time.time(),
                model=self.id,
                pid=engine.pid,
                architecture=facts.architecture,
                parameters=model.facts.parameters,
                layers=run.chain.layers,
                context=facts.context,
                lanes=facts.lanes,
                memory_measured=0,
                device=facts.device,
                chat=bool(facts.chat_template),
                embeddings=False,
                load_seconds=seconds,
            )
        )
        self._set("ready")

    async def _may_go_on(self, reason: str) -> bool:
        """Whether to plan anew, after a pause; not when it failed too often within ten minutes."""
        going_on = self._recent_failures() < self.settings.restart_limit
        text = f"{reason}. " + ("It is planned anew." if going_on else "It failed too often.")
        self._notice("warning" if going_on else "error", clean_text(text, 400))
        if not going_on:
            self._fail(
                NodeError(f"The chain broke too often; last: {reason}", hint="`meshllm load` it again.")
            )
            return False
        await self._back_off(least=1.0)
        return True

    async def close(self) -> None:
        """End all stages; running requests get an error."""
        self.closing = True
        if self._run is not None:
            await self._run.close(withdrawn="the model was unloaded")
            self.engine = None
