"""Measuring codecs on a running node: one at a time, behind everything else, told by events."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil

from meshllm_core.config import Settings
from meshllm_core.engine.certify_model import CODECS, MeasurementPlan, find_files, measure, plan_measurement
from meshllm_core.engine.certify_protocol import Doing
from meshllm_core.errors import MeshError, ModelTooLarge, NodeError, RequestCancelled
from meshllm_core.models.cache import Cache
from meshllm_core.models.hub import Hub
from meshllm_core.models.memory import read_memory
from meshllm_core.models.units import show_bytes
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from meshllm_core.state.certify_events import CertifyPhase, CodecVerdict

if TYPE_CHECKING:
    from meshllm_core.engine.certify_model import MeasurementResult
    from meshllm_core.identity.keys import SigningKey

EVENT_SECONDS = 0.5
"""Between two events about the progress of a phase."""
NICE = 19
"""The process yields to everything else: a measurement may take its time."""
MEMORY_SHARE = 1.2
"""Memory for a model beside its weights, as a share of them: its KV cache is small."""


@dataclass
class CertifyDesk:
    """One per node; all but `_report` and `_hold` run in its loop."""

    settings: Settings
    paths: Paths
    store: EventStore
    signing_key: "Callable[[], Awaitable[SigningKey]]"
    _task: "asyncio.Task[None] | None" = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _process: "subprocess.Popen[bytes] | None" = None
    _told: tuple[str, float] = ("", 0.0)

    async def start(self, model: str, cuts: tuple[int, ...], codecs: tuple[str, ...]) -> dict[str, object]:
        """Begins to measure; events tell the rest. Empty `cuts`: the middle; empty `codecs`: all.

        Raises NodeError while one runs, ModelNotFound, CutRefused, ModelTooLarge, ConfigError.
        """
        self._refuse_second()
        plan = await asyncio.to_thread(self._plan, model, cuts, codecs)
        _refuse_large(plan)
        key = await self.signing_key()
        self._refuse_second()
        self._stop, self._process, self._told = threading.Event(), None, ("", 0.0)
        started = ev.CertificationStarted(
            at=time.time(),
            model=model,
            cuts=plan.splits[0],
            codecs=tuple(dtype.label for dtype in plan.dtypes),
        )
        self.store.append(started)
        self._task = asyncio.create_task(self._run(plan, key), name="certify")
        return {"model": model, "cuts": list(plan.splits[0]), "status": "measuring"}

    def cancel(self) -> dict[str, object]:
        """Ends the measurement that runs; nothing of it is kept. Raises NodeError where none runs."""
        if self._task is None or self._task.done():
            raise NodeError("No measurement of codecs runs on this node.", hint="`certify` begins one.")
        self._end()
        return {"status": "cancelling"}

    async def close(self) -> None:
        """The node ends, and so does what it measures."""
        if self._task is not None:
            self._end()
            await asyncio.gather(self._task, return_exceptions=True)

    def _end(self) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.kill()

    def _refuse_second(self) -> None:
        if self._task is not None and not self._task.done():
            view = self.store.snapshot.certification
            raise NodeError(
                f"The codecs of {view.model if view else 'a model'} are being measured; that is one at a "
                "time.",
                hint="Wait for its end, or cancel it.",
            )

    def _plan(self, model: str, cuts: tuple[int, ...], codecs: tuple[str, ...]) -> MeasurementPlan:
        cache = Cache(self.paths.models)
        models = self.store.snapshot.models
        # A record may know no more than the file's name.
        row = next((row for row in models if model in (row.id, Path(row.path).name)), None)
        known = (row.path or row.ref) if row is not None else model
        files, name = find_files(known, cache, Hub(endpoint=self.settings.hub_endpoint or None))
        source = cache.source(Path(files[0]).parent)
        if not name and source is not None:
            name = f"{source.repo}:{source.quant}"
        return plan_measurement(
            files,
            name,
            cuts=(",".join(str(cut) for cut in cuts),) if cuts else (),
            codecs=",".join(codecs) or CODECS,
            device=self.settings.device,
            threads=self.settings.threads,
        )

    async def _run(self, plan: MeasurementPlan, key: "SigningKey") -> None:
        ended = partial(ev.CertificationEnded, outcome="failed")
        measuring = partial(measure, plan, self.paths, lambda: key, self._report, self._hold)
        try:
            result = await asyncio.to_thread(measuring)
            ended = partial(ev.CertificationEnded, outcome="done", verdicts=_verdicts(result))
        except MeshError as error:
            if self._stop.is_set():
                ended = partial(ev.CertificationEnded, outcome="cancelled")
            else:
                ended = partial(
                    ev.CertificationEnded, outcome="failed", message=error.message, hint=error.hint
                )
        finally:
            self._process = None
            # By the same way as the progress of the thread, so that none of it comes after.
            self.store.append_soon(ended(at=time.time()))

    def _report(self, doing: Doing) -> None:
        """In the measuring thread."""
        if self._stop.is_set():
            raise RequestCancelled("The measurement was cancelled.")
        now = time.monotonic()
        phase, at = self._told
        if doing.phase != phase or now - at >= EVENT_SECONDS:
            self._told = doing.phase, now
            told = ev.CertificationProgressed(
                at=time.time(), phase=cast("CertifyPhase", doing.phase), done=doing.done, total=doing.total
            )
            self.store.append_soon(told)

    def _hold(self, process: "subprocess.Popen[bytes]") -> None:
        """In the measuring thread."""
        with contextlib.suppress(psutil.Error):
            if sys.platform == "win32":
                psutil.Process(process.pid).nice(psutil.IDLE_PRIORITY_CLASS)
            else:
                psutil.Process(process.pid).nice(NICE)
        self._process = process
        if self._stop.is_set():
            process.kill()


def _refuse_large(plan: MeasurementPlan) -> None:
    needed, free = int(plan.bytes_total * MEMORY_SHARE), read_memory().available
    if needed > free:
        raise ModelTooLarge(
            f"Measuring {plan.title} takes {show_bytes(needed)} of memory beside what runs, and "
            f"{show_bytes(free)} are free on this machine.",
            hint="Unload a model first.",
        )


def _verdicts(result: "MeasurementResult") -> tuple[CodecVerdict, ...]:
    from meshllm_core.certify.verdict import judge

    return tuple(
        CodecVerdict(codec=one.codec.label, verdict=judge(one.figures).value)
        for one in result.splits[0].certificates
    )


async def act(desk: CertifyDesk, name: str, arguments: dict[str, Any]) -> dict[str, object]:
    """The actions `certify` and `cancel_certify`. Raises MeshError."""
    if name == "cancel_certify":
        return desk.cancel()
    return await desk.start(arguments["model"], arguments.get("cuts", ()), arguments.get("codecs", ()))
