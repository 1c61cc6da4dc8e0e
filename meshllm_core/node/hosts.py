"""All models of a node: load, unload, and the map that the router reads."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from meshllm_core.config import Settings
from meshllm_core.errors import ModelUnknown, NodeError
from meshllm_core.ids import ModelId, RequestId
from meshllm_core.models.hardware import Hardware
from meshllm_core.models.memory import read_memory
from meshllm_core.models.refs import AUTO
from meshllm_core.models.resolve import OnProgress, ResolvedModel
from meshllm_core.node.host import ModelHost
from meshllm_core.node.prepare import GB, Prepared, Wish, prepare_load
from meshllm_core.paths import Paths
from meshllm_core.serve.router import HostedModel
from meshllm_core.state import events as ev
from meshllm_core.state.split_events import NOT_SPLIT

if TYPE_CHECKING:
    from meshllm_core.models.package_stage import StageMaker
    from meshllm_core.node.split_host import SplitHost
    from meshllm_core.node.split_model import DivisibleModel
    from meshllm_core.node.split_seam import SplitMesh

T = TypeVar("T")

MODELS_LIMIT = 32
"""Models that a node serves at the same time."""
PROGRESS_SECONDS = 0.25

Resolve = Callable[..., ResolvedModel]


@dataclass
class Hosts:
    """Owned by the node's loop. Loads run one after the other, so that each sees what the last one took."""

    settings: Settings
    paths: Paths
    append: Callable[[ev.AnyEvent], None]
    append_soon: Callable[[ev.AnyEvent], None]
    resolve: Resolve
    """models.resolve.resolve with the hub's options bound."""
    hardware: "asyncio.Task[Hardware]"
    """Detecting it; a load waits for that."""
    hosted: dict[ModelId, HostedModel] = field(default_factory=dict)
    mesh: "Callable[[], SplitMesh]" = field(init=False)
    """The mesh, for models that are spread over it; set before the first load."""
    _hosts: list["ModelHost | SplitHost"] = field(default_factory=list)
    _tasks: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def load(
        self,
        ref: str,
        *,
        context_size: int | None = None,
        lanes: int | None = None,
        split: bool | None = None,
        wire_dtype: str | None = None,
        topology_lock: str | None = None,
        patient: bool = False,
    ) -> ModelId:
        """Begin to load; the events tell how it goes. Returns the name of its row for now.
        `split` spreads it over the machines of the mesh; `patient`: waits for enough of them to join.

        Raises NodeError when the same model is there already or there are too many.
        """
        self._forget_failed(ref)
        if any(ref in (host.ref, host.id) for host in self._hosts):
            raise NodeError(f"{ref} is loaded or loading already.", hint="`meshllm status` shows it.")
        if len(self._hosts) >= MODELS_LIMIT:
            raise NodeError(
                f"{MODELS_LIMIT} models are loaded; that is the limit.", hint="`meshllm unload` one."
            )
        size = self.settings.ctx_size if context_size is None else context_size
        host: ModelHost | SplitHost
        if self.settings.split if split is None else split:
            # Planner, codecs and stages: a node that splits nothing need not have them in memory.
            from meshllm_core.node import split_host

            host = split_host.SplitHost(
                ref=ref,
                id=ModelId(ref),
                paths=self.paths,
                settings=self.settings,
                append=self.append,
                resolve=self._divisible,
                maker=self._maker(),
                publish=self._publish,
                mesh=self.mesh(),
                instead=self._whole_instead,
                context_size=size,
                lanes=lanes or self.settings.lanes,
                wire_dtype=wire_dtype or self.settings.wire_dtype,
                topology_lock=topology_lock or self.settings.split_topology_lock,
                patient=patient,
            )
        else:
            host = ModelHost(
                ref=ref,
                id=ModelId(ref),
                paths=self.paths,
                append=self.append,
                prepare=self._prepare,
                publish=self._publish,
                restart_limit=self.settings.restart_limit,
                context_size=size,
                lanes=lanes or self.settings.lanes,
            )
        self._begin(host, ref)
        return host.id

    def _maker(self) -> "StageMaker":
        from meshllm_core.models.cache import Cache
        from meshllm_core.models.hub import Hub
        from meshllm_core.models.package_stage import StageMaker

        return StageMaker(Cache(self.paths.models), Hub(endpoint=self.settings.hub_endpoint or None))

    def _whole_instead(self, split: "SplitHost", why: str) -> None:
        """A model that was to be split fits here as a whole."""
        self._hosts.remove(split)
        self.hosted.pop(split.id, None)
        self.append(ev.NoticeLogged(at=time.time(), level="info", source=split.id, text=f"{NOT_SPLIT}{why}"))
        host = ModelHost(
            ref=split.ref,
            id=split.id,
            paths=self.paths,
            append=self.append,
            prepare=self._prepare,
            publish=self._publish,
            restart_limit=self.settings.restart_limit,
            context_size=split.context_size,
            lanes=split.lanes,
        )
        self._begin(host, split.ref)

    def _begin(self, host: "ModelHost | SplitHost", ref: str) -> None:
        self._hosts.append(host)
        self._publish(host)
        task = asyncio.create_task(host.run(), name=f"model-{ref}")
        task.add_done_callback(host.ended)
        self._tasks[id(host)] = task

    def _forget_failed(self, ref: str) -> None:
        for host in list(self._hosts):
            if ref in (host.ref, host.id) and host.hosted.status == "failed":
                self._hosts.remove(host)
                self.hosted.pop(host.id, None)
                self._tasks.pop(id(host), None)

    async def unload(self, name: str) -> ModelId:
        """End a model. Raises ModelUnknown."""
        host = next((host for host in self._hosts if name in (host.id, host.ref)), None)
        if host is None:
            names = ", ".join(host.id for host in self._hosts) or "none"
            raise ModelUnknown(f"No model named {name[:200]!r} is loaded.", hint=f"Loaded: {names}.")
        self._hosts.remove(host)
        self.hosted.pop(host.id, None)
        await self._end(host)
        self.append(ev.ModelUnloaded(at=time.time(), model=host.id))
        return host.id

    async def close(self) -> None:
        """End all engines at the same time."""
        hosts, self._hosts = self._hosts, []
        await asyncio.gather(*(self._end(host) for host in hosts))

    async def _end(self, host: "ModelHost | SplitHost") -> None:
        await host.close()
        task = self._tasks.pop(id(host), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def cancel(self, request: RequestId) -> bool:
        """Cancel a running request; False when no engine has it."""
        return any(host.engine is not None and host.engine.cancel(request) for host in self._hosts)

    def _publish(self, _host: "ModelHost | SplitHost") -> None:
        # The service holds this very dict, so it is refilled and not replaced.
        self.hosted.clear()
        self.hosted.update({host.id: host.hosted for host in self._hosts})

    # Preparing ------------------------------------------------------------------------------

    async def _divisible(self, host: "SplitHost") -> "DivisibleModel":
        from meshllm_core.models.package_fetch import find_package
        from meshllm_core.node.split_model import of_files, of_package

        def packaged(on_progress: OnProgress, cancelled: Callable[[], bool]) -> "DivisibleModel | None":
            maker = replace(host.maker, on_progress=on_progress, cancelled=cancelled)
            package = find_package(host.ref, maker)
            return None if package is None else of_package(package, host.ref, maker)

        async with self._turn:
            model = await self._in_thread(host, packaged)
            if model is None:
                resolved = await self._resolved(host)
                model = await asyncio.to_thread(of_files, resolved, host.maker.cache)
            self._check_only(host, model.id)
            host.rename(model.id)
            return model

    def _check_only(self, host: "ModelHost | SplitHost", name: ModelId) -> None:
        if any(other is not host and other.id == name for other in self._hosts):
            raise NodeError(f"{name} is loaded already.", hint="`meshllm status` shows it.")

    def memory_usable(self, hosted_stages: int) -> int:
        """Bytes that a stage may take now, beside the models here and `hosted_stages` bytes of stages."""
        free = self._memory_free()
        if not self.settings.max_vram:
            return free
        used = sum(host.memory_needed for host in self._hosts) + hosted_stages
        return max(0, min(free, int(self.settings.max_vram * GB) - used))

    async def _prepare(self, host: ModelHost) -> Prepared:
        hardware = await asyncio.shield(self.hardware)
        async with self._turn:
            model = await self._resolved(host)
            self._check_only(host, model.id)
            host.rename(model.id)
            wish = Wish(
                context_size=host.context_size,
                lanes=host.lanes,
                memory_free=self._memory_free(),
                memory_left=self._memory_left(host),
                devices=hardware.devices,
            )
            prepared = await asyncio.to_thread(prepare_load, model, wish, self.settings)
            host.memory_needed = prepared.fit.model_bytes
            return prepared

    def _memory_free(self) -> int:
        return read_memory().available

    def _memory_to_choose(self, host: "ModelHost | SplitHost") -> int:
        """Bytes that guide the choice of a file; where the node chooses the model too, within its limit."""
        left = self._memory_left(host) if host.ref == AUTO else None
        return self._memory_free() if left is None else min(self._memory_free(), left)

    def _memory_left(self, host: "ModelHost | SplitHost") -> int | None:
        if not self.settings.max_vram:
            return None
        used = sum(other.memory_needed for other in self._hosts if other is not host)
        return max(0, int(self.settings.max_vram * GB) - used)

    async def _resolved(self, host: "ModelHost | SplitHost") -> ResolvedModel:
        def work(on_progress: OnProgress, cancelled: Callable[[], bool]) -> ResolvedModel:
            return self.resolve(
                host.ref,
                memory_available=self._memory_to_choose(host),
                on_progress=on_progress,
                cancelled=cancelled,
            )

        return await self._in_thread(host, work)

    async def _in_thread(
        self, host: "ModelHost | SplitHost", work: Callable[[OnProgress, Callable[[], bool]], T]
    ) -> T:
        """Does `work`, which may download: the row shows how far it is, and its end ends the work."""
        said = 0.0
        stopped = threading.Event()

        def on_progress(done: int, total: int) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= PROGRESS_SECONDS or done >= total:
                said = now
                self.append_soon(
                    ev.ModelDownloadProgressed(
                        at=time.time(), model=host.id, bytes_done=done, bytes_total=total
                    )
                )

        try:
            return await asyncio.to_thread(work, on_progress, stopped.is_set)
        except asyncio.CancelledError:
            stopped.set()
            raise
