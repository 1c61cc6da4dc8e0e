"""What a model's row is to everybody else, whether its engine is here as a whole or drives a split."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import EngineError, MeshError, describe
from meshllm_core.ids import ModelId
from meshllm_core.paths import Paths
from meshllm_core.serve.router import HostedModel, HostedStatus
from meshllm_core.state import events as ev

log = logging.getLogger(__name__)

FAILURE_WINDOW_SECONDS = 600.0
"""Failures are counted within this time, and from the last work that an engine did; a model that fails more
often is given up."""
BACKOFF_SECONDS = (0.0, 1.0, 5.0, 15.0)


@dataclass(kw_only=True)
class ModelRow:
    """`hosted` is what the router reads."""

    ref: str
    id: ModelId
    paths: Paths
    append: Callable[[ev.AnyEvent], None]
    publish: Callable[[Any], None]
    """Called with the row whenever `hosted` changed."""
    context_size: int
    lanes: int
    created: int = field(default_factory=lambda: int(time.time()))
    hosted: HostedModel = field(init=False)
    engine: EngineProcess | None = None
    memory_needed: int = 0
    """Bytes, once known; counts against --max-vram."""
    closing: bool = False
    _failures: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.hosted = HostedModel(id=self.id, created=self.created, status="loading")
        self.append(ev.ModelRequested(at=time.time(), model=self.id, ref=self.ref))

    def rename(self, name: ModelId) -> None:
        """The reference turned out to be this model."""
        if name != self.id:
            self.append(ev.ModelNamed(at=time.time(), model=self.id, name=name))
            self.id = name
            self._set("loading")

    def ended(self, task: "asyncio.Task[None]") -> None:
        """The supervision is over. A fault of ours must not leave the model "loading" for ever."""
        if task.cancelled() or (fault := task.exception()) is None:
            return
        log.error("the supervision of %s failed", self.id, exc_info=fault)
        self._fail(EngineError(f"{self.id} failed inside meshllm: {describe(fault)}", hint="See the log."))

    def _recent_failures(self) -> int:
        now = time.monotonic()
        while self._failures and now - self._failures[0] > FAILURE_WINDOW_SECONDS:
            self._failures.popleft()
        return len(self._failures)

    async def _back_off(self, least: float = 0.0) -> None:
        """Counts a failure, and waits a little longer each time."""
        now = time.monotonic()
        await asyncio.sleep(max(least, BACKOFF_SECONDS[min(len(self._failures), len(BACKOFF_SECONDS) - 1)]))
        self._failures.append(now)

    def _fail(self, error: MeshError) -> None:
        if self.closing:
            return
        self.engine = None
        self.memory_needed = 0
        self.append(
            ev.ModelFailed(
                at=time.time(), model=self.id, code=error.code, message=error.message, hint=error.hint
            )
        )
        self._set("failed", detail=str(error))

    def _set(self, status: HostedStatus, detail: str = "") -> None:
        self.hosted = HostedModel(
            id=self.id,
            created=self.created,
            status=status,
            engine=self.engine if status == "ready" else None,
            detail=detail,
        )
        self.publish(self)

    def _notice(self, level: ev.NoticeLevel, text: str) -> None:
        self.append(ev.NoticeLogged(at=time.time(), level=level, source=self.id, text=text))
