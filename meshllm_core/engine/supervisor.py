"""Starts an engine child, speaks with it, and turns its end into a typed error."""

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from meshllm_core.engine.exits import classify
from meshllm_core.engine.mailbox import Mailbox
from meshllm_core.engine.protocol import (
    Answer,
    Cancel,
    ChainBroken,
    Chunks,
    Detokenize,
    Embed,
    FromChild,
    Generate,
    Loaded,
    LoadFailed,
    LoadSpec,
    Probing,
    Progress,
    Stats,
    ToChild,
    Tokenize,
    UnitRefused,
    encode,
    frame_length,
    from_child_decoder,
)
from meshllm_core.engine.refusals import ProbeFailed, error_of, error_of_answer
from meshllm_core.engine.types import Chunk, Finished, GenerationRequest, ModelFacts, Refused
from meshllm_core.engine.unit_socket import NodeUnits
from meshllm_core.errors import (
    EngineError,
    EngineExited,
    EngineTimeout,
    MeshError,
    ModelFileInvalid,
    ModelTooLarge,
    StorageError,
    describe,
)
from meshllm_core.ids import RequestId

log = logging.getLogger(__name__)

ENVIRONMENT = {
    # An abort in ggml would otherwise start a debugger, where one is installed, to print a trace.
    "GGML_NO_BACKTRACE": "1",
    # Compute threads meet hundreds of times per token. By default GNU's OpenMP lets one that waits spin for
    # milliseconds: alone that is quickest, but beside any other program (our own node, the client) the
    # spinning keeps the very thread that is waited for from running. Sleeping after some 30 microseconds
    # was as quick alone and several times quicker beside others.
    "GOMP_SPINCOUNT": "2000",
}
"""Of every engine; what the node's own environment sets wins."""
LOG_TAIL_LINES = 12
STOP_SECONDS = 3.0
STUCK_SECONDS = 600.0
"""A working child tells its speed once a second; a step of a huge model may take minutes all the same."""
CALL_SECONDS = 60.0
EMBED_SECONDS = 600.0
"""Embeddings of many long inputs take a while on a slow machine."""


class EngineProcess:
    """A StageEngine in a child process. Made by `start`, ended by `close`."""

    def __init__(self, name: str, log_path: Path, on_stats: Callable[[Stats], None]) -> None:
        self.name = name
        self.log_path = log_path
        self.exited: asyncio.Future[EngineExited] = asyncio.get_running_loop().create_future()
        """Resolves when the process ends without `close` having been called."""
        self._on_stats = on_stats
        self.on_unit: Callable[[bytes], None] = _ignored
        """Called with every unit that the child passes on; set before `start` for a stage of a chain."""
        self.on_refused_unit: Callable[[str], None] = _ignored
        """Called with the words for every unit that the child refused."""
        self.on_chain_broken: Callable[[str], None] = _ignored
        """Called with the words when the driver gave up waiting for rows."""
        self.on_probing: Callable[[], None] = _nothing
        """Called when a stage with a golden probe is loaded and begins to be proved."""
        self._units = NodeUnits(lambda unit: self.on_unit(unit), self._unreadable)
        self._facts: ModelFacts | None = None
        self._boxes: dict[RequestId, Mailbox] = {}
        self._calls: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)
        self._closing, self._why = False, f"The engine of {name} was stopped: its model was unloaded."
        self._heard = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._load_failure: LoadFailed | None = None

    # Start and stop -------------------------------------------------------------------------

    async def start(self, spec: LoadSpec, on_progress: Callable[[float], None]) -> None:
        """Spawn and load. Raises ModelError, or EngineError: ProbeFailed, EngineExited."""
        self._memory_kills = _memory_kill_count()
        ours, units = await self._spawn()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=1 << 20)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._units, sock=units)
        loaded: asyncio.Future[ModelFacts] = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.create_task(self._read(loaded, on_progress), name=f"engine-read-{self.name}"),
            asyncio.create_task(self._watch(loaded), name=f"engine-watch-{self.name}"),
            asyncio.create_task(self._end_if_stuck(), name=f"engine-stuck-{self.name}"),
        ]
        try:
            with contextlib.suppress(EngineExited):  # `loaded` tells why
                await self._send(spec)
            self._facts = await loaded
        except BaseException:
            await self.close()
            raise

    async def _spawn(self) -> tuple[socket.socket, socket.socket]:
        """Start the process; our ends of its sockets, for messages and for units."""
        (ours, theirs), (units, their_units) = socket.socketpair(), socket.socketpair()
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as output:
                self.process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "meshllm_core.engine.worker",
                    str(theirs.fileno()),
                    str(their_units.fileno()),
                    pass_fds=(theirs.fileno(), their_units.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**ENVIRONMENT, **os.environ},
                    # Ctrl+C in the terminal is for the node, which then ends its engines in order.
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            units.close()
            raise StorageError(
                f"The engine of {self.name} cannot start: {error.strerror} ({error.filename or 'process'}).",
                hint="Free some disk space or memory, and check that the log folder can be written.",
            ) from error
        finally:
            theirs.close()
            their_units.close()
        return ours, units

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return int(self.process.pid)

    @property
    def facts(self) -> ModelFacts:
        """What the model says of itself; known once `start` returned."""
        if self._facts is None:
            raise AssertionError("the engine is not loaded yet")
        return self._facts

    async def close(self) -> None:
        """End the child: its socket closes, it exits; if it does not, it is killed."""
        self._closing = True
        self._writer.close()
        self._units.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_all(self._stopped())

    def _stopped(self) -> EngineExited:
        return EngineExited(self._why, reason="exit")

    async def _watch(self, loaded: "asyncio.Future[ModelFacts]") -> None:
        code = await self.process.wait()
        # What the child wrote before it ended is read to the end first.
        await asyncio.wait({self._tasks[0]}, timeout=STOP_SECONDS)
        self._fail_all(error := self._stopped() if self._closing else self._exit_error(code))
        if not loaded.done():
            loaded.set_exception(self._load_error() or error)
        elif not self._closing and not self.exited.done():
            self.exited.set_result(error)

    async def _end_if_stuck(self) -> None:
        """Kill a child that has requests and has said nothing for STUCK_SECONDS: a hung driver, say."""
        while True:
            await asyncio.sleep(STUCK_SECONDS / 20)
            if self._boxes and time.monotonic() - self._heard > STUCK_SECONDS:
                log.error("the engine of %s said nothing for %.0f s and is ended", self.name, STUCK_SECONDS)
                self.process.kill()
                return

    def _exit_error(self, code: int) -> EngineExited:
        kills = _memory_kill_count() > self._memory_kills
        return classify(self.name, code, self.log_tail(), killed_for_memory=kills)

    def _load_error(self) -> MeshError | None:
        failure = self._load_failure
        if failure is None:
            return None
        if failure.code == "probe":
            return ProbeFailed(failure.message, hint=failure.hint)
        if failure.code == "out_of_memory":
            return ModelTooLarge(
                f"{self.name}: {failure.message}", hint="Use a smaller --ctx-size or fewer --lanes."
            )
        reason = next((line for line in reversed(self.log_tail()) if "error" in line.lower()), "")
        return ModelFileInvalid(
            f"{failure.message} {reason}".strip(),
            hint="Check that the file is whole and its architecture is known to llama.cpp.",
        )

    def log_tail(self) -> tuple[str, ...]:
        """The last lines of the child's log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16_384))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ()
        return tuple(deque((line[:300] for line in lines if line.strip()), maxlen=LOG_TAIL_LINES))

    # Messages -------------------------------------------------------------------------------

    async def _send(self, message: ToChild) -> None:
        if self._writer.is_closing():
            raise EngineExited(f"The engine of {self.name} is not running.", reason="exit")
        self._writer.write(encode(message))
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise EngineExited(f"The engine of {self.name} is not running.", reason="exit") from error

    async def _read(self, loaded: "asyncio.Future[ModelFacts]", on_progress: Callable[[float], None]) -> None:
        while True:
            try:
                header = await self._reader.readexactly(4)
                body = await self._reader.readexactly(frame_length(header))
                message = from_child_decoder.decode(body)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            except (EngineError, msgspec.DecodeError, RecursionError) as error:
                self._unreadable(describe(error))
                return
            self._heard = time.monotonic()
            match message:
                case Progress(fraction=fraction):
                    on_progress(fraction)
                case Probing():
                    self.on_probing()
                case Loaded(facts=facts):
                    if not loaded.done():
                        loaded.set_result(facts)
                case LoadFailed() as failure:
                    self._load_failure = failure
                case _:
                    self._deliver(message)

    def _unreadable(self, words: str) -> None:
        log.error("the engine of %s sent what cannot be read: %s", self.name, words)
        self.process.kill()

    def _deliver(self, message: FromChild) -> None:
        match message:
            case Chunks():
                for item in message.items:
                    box = self._boxes.get(item.request_id)
                    if box is not None:
                        box.put(error_of(item) if isinstance(item, Refused) else item)
            case Answer():
                waiting = self._calls.pop(message.call, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            case Stats():
                self._on_stats(message)
            case ChainBroken(message=text):
                self.on_chain_broken(text)
            case UnitRefused(message=text):
                self.on_refused_unit(text)

    def _fail_all(self, error: EngineExited) -> None:
        for box in self._boxes.values():
            box.put(error)
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(error)
        self._calls.clear()

    # Chain ----------------------------------------------------------------------------------

    def pass_unit(self, data: bytes) -> None:
        """Hands a unit of the chain to the child."""
        self._units.send(data)

    def break_chain(self, message: str) -> None:
        """Tells the driver that nothing more will come; `close` then says so too."""
        self._why = message
        if not self._writer.is_closing():
            self._writer.write(encode(ChainBroken(message=message)))

    def unit_refused(self, message: str) -> None:
        """Tells the driver that a stage refused a unit: if it waits for that one, it need not wait long."""
        if not self._writer.is_closing():
            self._writer.write(encode(UnitRefused(message=message)))

    # StageEngine ----------------------------------------------------------------------------

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """See StageEngine.generate."""
        box = Mailbox()
        if not self._boxes:
            self._heard = time.monotonic()
        self._boxes[request.request_id] = box
        over = False
        try:
            await self._send(Generate(request=request))
            while not over:
                chunk = await box.get()
                over = isinstance(chunk, Finished)
                yield chunk
        except MeshError:
            over = True
            raise
        finally:
            self._boxes.pop(request.request_id, None)
            if not over and not self._writer.is_closing():
                # No drain: this also runs while the request's task is being cancelled.
                self._writer.write(encode(Cancel(request_id=request.request_id)))

    def cancel(self, request_id: RequestId) -> bool:
        """Cancel a request from outside its stream, which then ends as cancelled. False if it is not here."""
        if request_id not in self._boxes or self._writer.is_closing():
            return False
        self._writer.write(encode(Cancel(request_id=request_id)))
        return True

    async def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """See StageEngine.tokenize."""
        call = next(self._numbers)
        message = Tokenize(call=call, text=text, add_special=add_special, parse_special=parse_special)
        return (await self._call(message)).tokens

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """See StageEngine.detokenize."""
        return (await self._call(Detokenize(call=next(self._numbers), tokens=tuple(tokens)))).text

    async def embed(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[list[float], int], ...]:
        """See StageEngine.embed."""
        return (await self._call(Embed(call=next(self._numbers), inputs=tuple(inputs)))).embeddings

    async def _call(self, message: Tokenize | Detokenize | Embed) -> Answer:
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._calls[message.call] = waiting
        seconds = EMBED_SECONDS if isinstance(message, Embed) else CALL_SECONDS
        try:
            await self._send(message)
            answer = await asyncio.wait_for(waiting, seconds)
        except TimeoutError as error:
            raise EngineTimeout(f"The engine of {self.name} did not answer in {seconds:.0f} s.") from error
        finally:
            self._calls.pop(message.call, None)
        if answer.error:
            raise error_of_answer(answer)
        return answer


def _ignored(_: object) -> None:
    """A whole model is no part of a chain."""


def _nothing() -> None:
    """Nobody wants to know."""


def _memory_kill_count() -> int:
    """How often the kernel has killed for memory in this control group; 0 where that is not told."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdigit():
                return int(value)
    return 0
