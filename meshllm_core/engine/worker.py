"""Main of the engine child: `python -m meshllm_core.engine.worker FD UNITS_FD`.

Both are ends of Unix socket pairs: one for messages, one for the units of a chain. Standard output and error
are a log file. The main thread computes; one more thread reads the messages, tokenizes, and prepares
requests, which runs beside the computing because llama.cpp's calls release the interpreter lock. When the
node goes away the sockets close and the child ends at once, in the middle of a step if need be.
"""

import gc
import os
import queue
import socket
import sys
import threading
from pathlib import Path

import msgspec

from meshllm_core.engine.contexts import AnyContext
from meshllm_core.engine.inbox import Inbox, ended
from meshllm_core.engine.llama.context import Context
from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.loop import EngineLoop
from meshllm_core.engine.probe import prove
from meshllm_core.engine.protocol import (
    Cancel,
    ChainBroken,
    Chunks,
    Embed,
    FromChild,
    Loaded,
    LoadFailed,
    LoadSpec,
    Probing,
    Progress,
    Stats,
    UnitRefused,
    encode,
    frame_length,
    to_child_decoder,
)
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.engine.split_context import ChainEnded, SplitContext
from meshllm_core.engine.stage_worker import StageWorker
from meshllm_core.engine.unit_socket import ChildUnits
from meshllm_core.errors import EngineError, ModelError

PROGRESS_STEPS = 100


class Wire:
    """The socket: whole frames, writes from two threads."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()

    def send(self, message: FromChild) -> None:
        """Send one frame; the node reads eagerly, so this does not wait for clients."""
        data = encode(message)
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                os._exit(0)

    def receive(self) -> object:
        """The next message. The process ends when the node is gone."""
        return to_child_decoder.decode(self._exactly(frame_length(self._exactly(4))))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._socket.recv(min(size - len(data), 1 << 20))
            except OSError:
                part = b""
            if not part:
                os._exit(0)
            data += part
        return bytes(data)


def load(spec: LoadSpec, wire: Wire, units: ChildUnits) -> tuple[Model, AnyContext] | StageWorker:
    """Model and context, or what computes a stage that is not the last. Raises ModelError or EngineError."""
    said = -1

    def on_progress(fraction: float) -> None:
        nonlocal said
        step = int(fraction * PROGRESS_STEPS)
        if step > said:
            said = step
            wire.send(Progress(fraction=fraction))

    if spec.chain is None:
        model = Model(spec, on_progress)
        return model, Context(model, spec, embeddings=model.embeds)
    outputs = spec.lanes + spec.prefix_slots if spec.chain.role == "driver" else None
    runner = StageRunner(spec, outputs=outputs, on_progress=on_progress)
    if spec.probes:
        wire.send(Probing())
        prove(runner, Path(spec.probes))

    def refuse(text: str) -> None:
        wire.send(UnitRefused(message=text))

    if spec.chain.role == "driver":
        return runner.model, SplitContext(runner, spec.chain, units, refuse)
    return StageWorker(runner, spec.chain, units, refuse=refuse)


def run(wire: Wire, units: ChildUnits) -> None:
    """Load what the node asks for, then serve until it goes away."""
    spec = wire.receive()
    if not isinstance(spec, LoadSpec):
        raise EngineError(f"The first message was {type(spec).__name__}, not a load.")
    try:
        loaded = load(spec, wire, units)
    except ModelError as error:
        wire.send(LoadFailed(code="bad_file", message=str(error)))
        return
    except ProbeFailed as error:
        wire.send(LoadFailed(code="probe", message=error.message, hint=error.hint))
        return
    except EngineError as error:
        wire.send(LoadFailed(code="out_of_memory", message=str(error)))
        return
    if isinstance(loaded, StageWorker):
        _run_stage(loaded, wire, spec)
        return
    model, context = loaded
    inbox = Inbox(model, context, spec, wire.send, embeddings=model.embeds)
    facts = model.facts(context=inbox.context_limit, embeddings=model.embeds)
    if spec.chain is not None:
        # The file here holds the last stage; who asks wants to know of the whole model.
        facts = msgspec.structs.replace(facts, parameters=spec.chain.parameters)
    wire.send(Loaded(facts=facts))
    gc.collect()
    gc.freeze()

    def send(message: Chunks | Stats) -> None:
        if isinstance(message, Chunks):
            inbox.closed(ended(message))
        wire.send(message)

    loop = EngineLoop(model, context, spec, send)
    threading.Thread(target=_read, args=(wire, inbox, loop), name="reader", daemon=True).start()
    serve(loop, inbox, context, wire)


def _run_stage(worker: StageWorker, wire: Wire, spec: LoadSpec) -> None:
    """Compute what comes until the node goes away."""
    wire.send(Loaded(facts=worker.facts(spec)))
    gc.collect()
    gc.freeze()

    def read() -> None:
        while True:
            wire.receive()  # Nothing is said to a stage; the process ends with the socket.

    threading.Thread(target=read, name="reader", daemon=True).start()
    worker.run()


def _read(wire: Wire, inbox: Inbox, loop: EngineLoop) -> None:
    while True:
        message = wire.receive()
        if isinstance(inbox.context, SplitContext):
            if isinstance(message, ChainBroken):
                inbox.context.fail(message.message)
                continue
            if isinstance(message, UnitRefused):
                inbox.context.complain(message.message)
                continue
        inbox.receive(message)
        if isinstance(message, Cancel) and message.request_id in loop.prefilling:
            inbox.context.interrupt()


def serve(loop: EngineLoop, inbox: Inbox, context: AnyContext, wire: Wire) -> None:
    """Take what arrived, compute a step, again; sleeps while there is nothing to do."""
    while True:
        # Before the queue is emptied: an interrupt that comes later belongs to a message not yet seen.
        context.resume()
        if not loop.busy:
            loop.idle_stats()
            _dispatch(inbox.queue.get(), loop, inbox)
        while True:
            try:
                _dispatch(inbox.queue.get_nowait(), loop, inbox)
            except queue.Empty:
                break
        if loop.busy:
            try:
                loop.step()
            except ChainEnded as error:
                loop.fail(error.message)
                wire.send(ChainBroken(message=error.message))


def _dispatch(message: object, loop: EngineLoop, inbox: Inbox) -> None:
    match message:
        case Cancel():
            loop.cancel(message.request_id)
        case Embed():
            inbox.embed(message)
        case _:
            loop.submit(inbox.as_job(message))


def main() -> None:
    """Entry point of the child process."""
    wire = Wire(int(sys.argv[1]))
    api.llama_backend_init()
    run(wire, ChildUnits(int(sys.argv[2])))


if __name__ == "__main__":
    main()
