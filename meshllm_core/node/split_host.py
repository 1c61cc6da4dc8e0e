"""A model that is spread over machines: plan, start, watch, plan anew when a stage is lost."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from meshllm_core.certify.record import backend_of
from meshllm_core.config import Settings
from meshllm_core.discovery.text import clean_text
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.protocol import LoadSpec, Stats
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import CutRefused, MeshError, ModelTooLarge, NodeError, NotInMesh, describe
from meshllm_core.ids import NodeId
from meshllm_core.models.fit import EngineSettings
from meshllm_core.models.memory import usable_cores
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.node.host import throughput
from meshllm_core.node.model_row import ModelRow
from meshllm_core.node.split_files import StageFiles
from meshllm_core.node.split_gate import Gate
from meshllm_core.node.split_model import DivisibleModel
from meshllm_core.node.split_plan import Alone, Machine, SplitPlan, chunks_of, plan_split
from meshllm_core.node.split_plan import Wish as PlanWish
from meshllm_core.node.split_run import NO_PROBES, SplitRun
from meshllm_core.node.split_seam import SplitMesh
from meshllm_core.planner.wire import Wire, Wires, lossless, row_bytes
from meshllm_core.state import events as ev

log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0
"""So long the first token of a new chain may take."""
MACHINES_SECONDS = 1.0
"""So often those who wait for machines look again, and …"""
NEWS_SECONDS = 5.0
"""So long who does not wait for machines gives them to say what is free again."""
LENT_STEP = 64 << 20
"""… what counts as a difference in what one lends, in bytes."""
STOOD_SECONDS = 20.0
"""A chain that stood for so long was sound: its end is not counted with those before it."""
UNSTORED_SECONDS = 60.0
"""So long a machine whose disk could not take a stage of the model gets none."""
UNPROVED = "its layers did not reproduce the model's golden probe"


@dataclass(kw_only=True)
class SplitHost(ModelRow):
    """A model's row, as `ModelHost` is for one that is here as a whole."""

    settings: Settings
    resolve: Callable[["SplitHost"], Awaitable[DivisibleModel]]
    maker: StageMaker
    mesh: SplitMesh
    instead: Callable[["SplitHost", str], None]
    """Loads the model here as a whole in place of this host; gets the sentence that says why."""
    wire_dtype: str
    topology_lock: str
    """A file; empty: plan freely."""
    patient: bool
    """Whether to wait for machines where those that are there do not suffice."""
    _run: SplitRun | None = None
    _unproved: set[NodeId] = field(default_factory=set)
    """Machines that get no stage of it any more, …"""
    _unstored: dict[NodeId, tuple[str, float]] = field(default_factory=dict)
    """… and those that get none for now: why, and until when."""
    _said: str = ""
    _news_until: float = 0.0

    async def run(self) -> None:
        """Until the model is unloaded or given up. Errors end as ModelFailed, never as an exception."""
        try:
            model = await self.resolve(self)
            for note in model.notes:
                self._notice("warning", clean_text(note, 400))
            try:
                rules = StageRules(model.source)
            except CutRefused:
                if not (alone := await self._alone_here(model)):
                    raise
                self._alone(alone, model)
                return
            while not self.closing:
                reason = await self._once(model, rules)
                if self.closing or (reason and not await self._may_go_on(reason)):
                    return
        except MeshError as error:
            self._fail(error)

    async def _once(self, model: DivisibleModel, rules: StageRules) -> str:
        """One plan from start to end; why it ended, "" when machines have come or gone before it began.

        Raises where trying again would change nothing.
        """
        try:
            plan, wire = await self._planned(model)
        except (ModelTooLarge, NotInMesh) as error:
            if self.patient:
                await self._more_machines(error)
            elif not await self._news():
                error.hint = f"{self._served()}{error.hint}"
                raise
            return ""
        if isinstance(plan, Alone):
            return self._alone(plan, model)
        run = self._made(model, rules, plan, wire)
        self._run = run
        self._tell(run, wire)
        reason = ""
        try:
            await run.prepare()
            reason = await self._running(run, model)
            if reason and not self.closing and self._goes_on():
                self._interrupted(clean_text(f"{reason.rstrip('.')}. It is planned anew.", 400))
        except MeshError as error:
            reason = describe(error)
            raise
        finally:
            self.engine, self.memory_needed = None, 0
            if not self.closing:
                self._set("loading", detail="a machine was lost; the model is spread anew")
            self._unproved |= run.unproved
            lapses = time.monotonic() + UNSTORED_SECONDS
            self._unstored |= {node: (why, lapses) for node, why in run.unstored.items()}
            await run.close(withdrawn=reason or "the model was unloaded")
        return reason

    async def _running(self, run: SplitRun, model: DivisibleModel) -> str:
        """Until the chain is broken; why. Raises ProbeFailed where this machine itself computes wrongly."""
        began = time.monotonic()
        try:
            self.engine = engine = await run.start()
            await run.prove(ANSWER_SECONDS)
            self._ready(engine, model, run, time.monotonic() - began)
            self.patient = True  # What was lost may come back.
            ready = time.monotonic()
            reason = await run.lost
            if time.monotonic() - ready >= STOOD_SECONDS:
                self._failures.clear()
            return reason
        except ProbeFailed:
            raise
        except MeshError as error:
            return describe(error)

    async def _planned(self, model: DivisibleModel) -> tuple[SplitPlan | Alone, Wire]:
        self._set("loading", detail="its layers are being shared out")
        if len(self.mesh.machines()) < 2:
            if alone := await self._alone_here(model):
                return alone, Wire("", "", "")
            raise NotInMesh(
                f"{self.id} can only be split over machines of a mesh, and no other is there{self._away()}.",
                hint="`meshllm invite` here, `meshllm join` on another machine"
                + ("." if self.patient else "; then load it again."),
            )
        gathering = self.mesh.gather_certificates() if self.wire_dtype != "f32" else asyncio.sleep(0)
        links, _ = await asyncio.gather(self.mesh.settled_links(), gathering)
        machines = self._machines()
        kinds = tuple(one.kind for one in machines if not one.excluded)
        names = {one.node: one.name for one in machines}
        gate = Gate(self.paths, model, self.wire_dtype, backend_of(kinds), self.mesh.me, names)
        lock = Path(self.topology_lock) if self.topology_lock else None
        wish = self._wish(model, gate.wire, lock)
        plan = await asyncio.to_thread(plan_split, wish, machines, links)
        if isinstance(plan, Alone):
            return plan, Wire("", "", "")
        wire = await asyncio.to_thread(gate.wire, [stage.end for stage in plan.stages[:-1]])
        if isinstance(wire, str):
            raise NodeError(wire, hint="Use `--wire-dtype f32`, or measure it: `meshllm certify`.")
        return plan, wire

    def _wish(self, model: DivisibleModel, wires: Wires, lock: Path | None = None) -> PlanWish:
        return PlanWish(
            planned=model.planned,
            context=self.context_size,
            lanes=self.lanes,
            settings=EngineSettings(batch=self.settings.batch, kv_type=self.settings.kv_type),
            idle=self.settings.prefix_slots,
            wires=wires,
            lock=lock,
        )

    async def _alone_here(self, model: DivisibleModel) -> Alone | None:
        """The plan for this machine, if it holds all of the model: then nobody need join."""
        if self.topology_lock:
            return None
        try:
            plan = await asyncio.to_thread(plan_split, self._wish(model, lossless), self._machines()[-1:], {})
        except ModelTooLarge:
            return None
        if not isinstance(plan, Alone):
            return None
        # At the node's start its id may have been read meanwhile.
        return replace(plan, machine=replace(plan.machine, node=self.mesh.me))

    def _machines(self) -> list[Machine]:
        """Those of the mesh, without what this model met on them."""
        now = time.monotonic()
        self._unstored = {node: told for node, told in self._unstored.items() if told[1] > now}
        out = {node: why for node, (why, _) in self._unstored.items()}
        out |= dict.fromkeys(self._unproved, UNPROVED)
        return [replace(one, excluded=out.get(one.node, one.excluded)) for one in self.mesh.machines()]

    async def _more_machines(self, error: MeshError) -> None:
        """Returns when the machines are others than now."""
        missed = "" if isinstance(error, NotInMesh) else self._away()
        served = self._served()
        it = f"{served}It" if served else "it"
        text = clean_text(f"{it} waits for machines{missed}: {error}", 400)
        if text != self._said:
            self._interrupted(text)
        self._set("loading", detail=text)
        before = self._crowd()
        while not self.closing:
            await asyncio.sleep(MACHINES_SECONDS)
            if self._crowd() != before:
                return

    async def _news(self) -> bool:
        """Whether another machine says within a moment that it lends more or less than now.

        What a model that was just unloaded gives back there is known here with the next announcement.
        """
        if len(self.mesh.machines()) < 2:
            return False
        self._news_until = self._news_until or time.monotonic() + NEWS_SECONDS
        before = [(one.node, one.lent, one.excluded) for one in self.mesh.machines()]
        while not self.closing and time.monotonic() < self._news_until:
            await asyncio.sleep(NEWS_SECONDS / 20)
            if [(one.node, one.lent, one.excluded) for one in self.mesh.machines()] != before:
                return True
        return self.closing

    def _crowd(self) -> tuple[list[tuple[NodeId, int, str]], str]:
        lent = [(one.node, one.lent // LENT_STEP, one.excluded) for one in self._machines()]
        return lent, self._served()

    def _served(self) -> str:
        names = " and ".join(self.mesh.servers(self.id)[:3])
        return f"Requests for it are answered by {names} already. " if names else ""

    def _away(self) -> str:
        away = self.mesh.away()[:4]
        return f" (away: {', '.join(away)}; start meshllm there)" if away else ""

    def _alone(self, plan: Alone, model: DivisibleModel) -> str:
        """It fits on one machine: here it is loaded as a whole, elsewhere that is for a person to do."""
        if model.not_whole:
            raise NodeError(f"{plan.sentence} It is not split.", hint=model.not_whole)
        if plan.machine.node != self.mesh.me:
            raise NodeError(
                f"{plan.sentence} It is not split.",
                hint=f"Load it on {plan.machine.name}: `meshllm load` there; this node routes to it.",
            )
        self.closing = True
        self.instead(self, plan.sentence)
        return ""

    def _made(self, model: DivisibleModel, rules: StageRules, plan: SplitPlan, wire: Wire) -> SplitRun:
        candidate, settings = plan.candidate, self.settings
        shape = rules.shape(plan.stages[-1].start, plan.stages[-1].end)
        sequences = candidate.lanes + settings.prefix_slots
        width = shape.width * shape.streams
        chunks = chunks_of(plan, model.planned, row_bytes(wire.dtype, width), settings.batch)
        chain = ChainSpec(
            role="stage",
            run=secrets.randbits(61) + 1,
            width=width,
            rows=settings.batch,
            sequences=sequences,
            positions=candidate.context,
            dtype=wire.dtype,
            vocabulary=model.facts.vocabulary if rules.sideband else 0,
            layers=rules.layers,
            parameters=model.facts.parameters,
            chunk=chunks.rows,
            ahead=chunks.ahead,
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
            chain=chain,
            spec=spec,
            files=StageFiles(model, self.maker, self.mesh.desk),
            paths=self.paths,
            desk=self.mesh.desk,
            open_call=self.mesh.open_call,
            me=self.mesh.me,
            append=self.append,
            on_stats=self._measured,
        )

    def _measured(self, stats: Stats) -> None:
        # What a driver says of a chain that is broken meanwhile would stay in the row.
        if self._run is not None and not self._run.lost.done():
            self.append(throughput(self.id, stats))

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
                chunk=run.chain.chunk,
                ahead=run.chain.ahead,
            )
        )

    def _ready(self, engine: EngineProcess, model: DivisibleModel, run: SplitRun, seconds: float) -> None:
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
        if model.probes is None:
            self._notice("info", f"{NO_PROBES[0].upper()}{NO_PROBES[1:]}.")

    async def _may_go_on(self, reason: str) -> bool:
        """Whether to plan anew, after a pause; not when it failed too often within ten minutes."""
        if not self._goes_on():
            self._notice("error", clean_text(f"{reason.rstrip('.')}. It failed too often.", 400))
            self._fail(
                NodeError(
                    f"The chain broke too often, last because {reason.rstrip('.')}.",
                    hint=f"`meshllm doctor split {self.ref}` says who takes part; then load it again.",
                )
            )
            return False
        await self._back_off(least=1.0)
        return True

    def _goes_on(self) -> bool:
        return self._recent_failures() < self.settings.restart_limit

    def _interrupted(self, reason: str) -> None:
        """Said before the stages are ended: nobody is to take it for ready meanwhile."""
        self._said = reason
        self.append(ev.SplitInterrupted(at=time.time(), model=self.id, reason=reason))

    async def close(self) -> None:
        """End all stages; running requests get an error."""
        self.closing = True
        if self._run is not None:
            await self._run.close(withdrawn="the model was unloaded")
            self.engine = None
