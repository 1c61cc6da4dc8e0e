"""Answers `plan` and `plan/models`: the planner over the live machines, asked as a load asks it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from meshllm_core.api.schema_plan import PlanAnswer, PlanArguments, PlanModels, PlanModelsArguments
from meshllm_core.certify.record import backend_of
from meshllm_core.errors import NodeError, Overloaded
from meshllm_core.models.fit import EngineSettings
from meshllm_core.node.believed import stamp_of
from meshllm_core.node.plan_answer import Asked, Launching, answer_of
from meshllm_core.node.plan_source import FoundModel, PlanSources
from meshllm_core.node.split_gate import Gate
from meshllm_core.node.split_plan import Machine, Wish
from meshllm_core.planner.plan import plan
from meshllm_core.planner.request import PlanRequest
from meshllm_core.planner.whatif import suppose
from meshllm_core.planner.wire import Wires, lossless
from meshllm_core.state.snapshot import ModelView

if TYPE_CHECKING:
    from meshllm_core.node.answers import Keeper, NodeParts

PLAN_SECONDS = 30.0
"""So long an answer may take. What is being read then is read on, and is known the next time."""
WAITING = 8
"""Questions that wait for the one that is being answered; more are refused."""

T = TypeVar("T")


async def answer_plan(keeper: "Keeper", asked: PlanArguments) -> PlanAnswer:
    """The candidates, or the refusal. Raises ModelError, NodeError, Overloaded."""
    return await _desk(keeper).plan(asked)


async def answer_models(keeper: "Keeper", _: PlanModelsArguments) -> PlanModels:
    """What can be planned. Raises NodeError, Overloaded."""
    return await _desk(keeper).models()


def _desk(keeper: "Keeper") -> "PlanDesk":
    if not isinstance(keeper.made, PlanDesk):
        keeper.made = PlanDesk(keeper.parts)
    return keeper.made


@dataclass
class PlanDesk:
    """Answers one question after the other, in a thread of its own: reading files and planning take time."""

    parts: "NodeParts"
    _sources: PlanSources = field(init=False)
    _gates: dict[tuple[object, ...], Gate] = field(default_factory=dict)
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._sources = PlanSources(self.parts.paths)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plan")

    async def models(self) -> PlanModels:
        """What can be picked."""
        loaded = self.parts.store.snapshot.models
        return PlanModels(models=await self._aside(lambda: self._sources.listed(loaded)))

    async def plan(self, asked: PlanArguments) -> PlanAnswer:
        """The candidates, or the refusal. Raises ModelError, NodeError, Overloaded."""
        mesh = self.parts.mesh.splits()
        machines, links = mesh.machines(), mesh.links()
        snapshot = self.parts.store.snapshot
        return await self._aside(lambda: self._planned(asked, machines, links, snapshot.models))

    async def _aside(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING:
            raise Overloaded(
                f"{WAITING} plans are being made already; this node answers them one after the other.",
                hint="Ask again in a moment.",
            )
        self._waiting += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(self._thread, work)
            async with asyncio.timeout(PLAN_SECONDS):
                return await running
        except TimeoutError:
            raise NodeError(
                f"The plan was not ready within {PLAN_SECONDS:.0f} s: this node is reading the model's file.",
                hint="Ask again in a minute; what was read is kept.",
            ) from None
        finally:
            self._waiting -= 1

    # In the thread ----------------------------------------------------------------------------------

    def _planned(
        self,
        asked: PlanArguments,
        machines: Sequence[Machine],
        links: dict[tuple[str, str], float],
        loaded: tuple[ModelView, ...],
    ) -> PlanAnswer:
        found = self._sources.find(asked.model, loaded)
        settings = self.parts.settings
        wish = Wish(
            planned=found.planned,
            context=asked.ctx_size or settings.ctx_size,
            lanes=asked.lanes or settings.lanes,
            settings=EngineSettings(batch=settings.batch, kv_type=settings.kv_type),
            idle=settings.prefix_slots,
            wires=self._wires(found, machines),
        )
        request = _supposed(wish.request(machines, links), asked)
        # One that failed holds nothing: for want of memory, a split may be what it needs.
        held = [view for view in loaded if view.status != "failed"]
        is_loaded = any(found.planned.model.name == view.id or found.ref == view.ref for view in held)
        launching = Launching(found.ref, machines, is_loaded, settings.client)
        return answer_of(plan(request), Asked(asked, found, request), launching)

    def _wires(self, found: FoundModel, machines: Sequence[Machine]) -> Wires:
        """As a load would choose. A gate knows its file's hash once it was needed, so it is kept."""
        if found.resolved is None:
            return lossless
        backend = backend_of(tuple(one.kind for one in machines if not one.excluded))
        paths, settings = self.parts.paths, self.parts.settings
        files = tuple((str(file), file.stat().st_mtime_ns) for file in found.resolved.files)
        key = (files, settings.wire_dtype, backend, stamp_of(paths, time.time()))
        if key not in self._gates:
            while len(self._gates) >= WAITING:
                del self._gates[next(iter(self._gates))]
            me, names = machines[-1].node, {one.node: one.name for one in machines}
            self._gates[key] = Gate(paths, found.resolved, settings.wire_dtype, backend, me, names)
        return self._gates[key].wire


def _supposed(request: PlanRequest, asked: PlanArguments) -> PlanRequest:
    """The request with what the person supposes."""
    if asked.hop_ms is not None:
        network = suppose(request.network, (f"hop={asked.hop_ms:.6f}ms",)).network
        request = replace(request, network=network)
    return replace(request, target_ms=asked.target_ms) if asked.target_ms else request
