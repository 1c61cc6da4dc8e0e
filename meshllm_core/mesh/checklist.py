"""The checklist of a join: eight lines, each passed or failed, and one sentence at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from meshllm_core.errors import MeshError
from meshllm_core.state.mesh_events import (
    JOIN_STEPS,
    JoinEnded,
    JoinStarted,
    JoinStep,
    JoinStepped,
    StepStatus,
)
from meshllm_core.transport.link import Clock

_AFTER_WAITING = ("admission", "reachability")
Append = Callable[[JoinStarted | JoinStepped | JoinEnded], None]


@dataclass
class Checklist:
    """Tells the event log how a join goes."""

    append: Append
    clock: Clock
    _running: JoinStep | None = None
    _waiting: bool = False

    def start(self, how: str) -> None:
        """A new try."""
        self._running, self._waiting = None, False
        self.append(JoinStarted(at=self.clock.time(), how=how))

    def run(self, step: JoinStep, detail: str = "") -> None:
        """This line is being worked on."""
        self._running = step
        self._say(step, "running", detail)

    def wait(self, detail: str) -> None:
        """A person has to let this node in: what was checked before is not told at each further try."""
        self._waiting = False
        self.run("admission", detail)
        self._waiting = True

    def passed(self, step: JoinStep, detail: str = "") -> None:
        """This line is done."""
        self._running = None if self._running == step else self._running
        self._say(step, "passed", detail)

    def skipped(self, step: JoinStep, detail: str) -> None:
        """This line does not matter here, or could not be found out."""
        self._running = None if self._running == step else self._running
        self._say(step, "skipped", detail)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Any error in the block fails the line that was running, and ends the checklist."""
        try:
            yield
        except MeshError as error:
            named = getattr(error, "step", "")
            step: JoinStep | None = named if named in JOIN_STEPS else self._running
            if step is not None:
                self._say(step, "failed", error.message)
            self.end(joined=False, message=error.message, hint=error.hint)
            raise

    def end(self, *, joined: bool, message: str, hint: str = "") -> None:
        """Through."""
        self._running = None
        self.append(JoinEnded(at=self.clock.time(), joined=joined, message=message, hint=hint))

    def _say(self, step: JoinStep, status: StepStatus, detail: str) -> None:
        if self._waiting and status in ("running", "passed") and step not in _AFTER_WAITING:
            return
        if self._waiting and step == "admission" and status == "running":
            return
        self.append(JoinStepped(at=self.clock.time(), step=step, status=status, detail=detail))
