"""A stage that is not the last: computes units in the order in which they matter and passes them on.

Decodes go before chunks of prompts that wait. A trim holds from the moment it arrives: what waits and lies
beyond it was given up by the driver, and is dropped.
"""

import queue
from collections import deque
from collections.abc import Callable

import numpy as np

from meshllm_core.engine.chain import Ids, Unit, decode, encode, form_of, ids, pairs, wire_dtype
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.types import ModelFacts
from meshllm_core.errors import EngineError, MeshError, WireError
from meshllm_core.wire.stage_frames import StageFrameReader, StageFrameWriter

TOKENS = 1 << 30
"""No vocabulary is larger; who reads the tokens knows its own."""
UNITS_WAITING = 256
"""A driver sends a handful; more means that it lost its mind."""


class StageWorker:
    """Owned by the main thread; `inbox` is filled by the reader."""

    def __init__(
        self,
        runner: StageRunner,
        chain: ChainSpec,
        *,
        send: Callable[[bytes], None],
        refuse: Callable[[str], None],
    ) -> None:
        """`refuse` tells the node that a unit was refused, and why; the chain goes on."""
        self.inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._runner, self._chain, self._send, self._refuse = runner, chain, send, refuse
        self._reader = StageFrameReader(form_of(chain))
        self._writer = StageFrameWriter(form_of(chain), wire_dtype(chain))
        self._urgent: deque[Unit] = deque()
        self._chunks: deque[Unit] = deque()

    def facts(self, spec: LoadSpec) -> ModelFacts:
        """Of the stage's file."""
        return self._runner.model.facts(context=spec.context, embeddings=False)

    def run(self) -> None:
        """Until the process ends."""
        while True:
            self._accept(self.inbox.get())
            while not self.inbox.empty():
                self._accept(self.inbox.get())
            while self._urgent or self._chunks:
                self.step()
                while not self.inbox.empty():
                    self._accept(self.inbox.get())

    def step(self) -> None:
        """Computes one unit and passes it on."""
        unit = self._urgent.popleft() if self._urgent else self._chunks.popleft()
        try:
            self._send(self._computed(unit))
        except MeshError as error:
            self._refuse(f"A unit was refused: {error.message}")

    def _accept(self, data: bytes) -> None:
        try:
            unit = decode(data, self._chain.run)
            trims = pairs(unit.trims)
            if len(self._urgent) + len(self._chunks) >= UNITS_WAITING:
                raise WireError(f"{UNITS_WAITING} units wait already.", param="unit")
            if trims.size and int(trims[:, 0].max()) >= self._chain.sequences:
                raise WireError("A sequence that there is not.", param="sequence")
        except WireError as error:
            self._refuse(f"A unit was refused: {error.message}")
            return
        for sequence, position in trims.tolist():
            self._void(sequence, position)
            self._trim(sequence, position)
        (self._urgent if unit.urgent else self._chunks).append(unit)

    def _void(self, sequence: int, position: int) -> None:
        """Chunks that wait and begin beyond a trim are no longer wanted; decodes are asked for after it."""
        for unit in list(self._chunks):
            try:
                of, at = self._begin_of(unit)
            except WireError:
                continue  # It is refused in its turn.
            if of == sequence and at >= position:
                self._chunks.remove(unit)

    def _begin_of(self, unit: Unit) -> tuple[int, int]:
        """(sequence, position) of a chunk's first row."""
        if self._runner.shape.first:
            return int.from_bytes(unit.sequences[:4], "little"), int.from_bytes(unit.positions[:4], "little")
        frame = self._reader.read(unit.frame)
        return int(frame.sequences[0]), int(frame.positions[0])

    def _trim(self, sequence: int, position: int) -> None:
        try:
            self._runner.trim(sequence, position)
        except EngineError as error:
            self._refuse(error.message)

    def _computed(self, unit: Unit) -> bytes:
        chain = self._chain
        tokens: Ids | None
        if self._runner.shape.first:
            tokens = ids(unit.tokens, "token", None, TOKENS)
            sequences = ids(unit.sequences, "sequence", len(tokens), chain.sequences)
            positions = ids(unit.positions, "position", len(tokens), chain.positions)
            rows = None
        else:
            frame = self._reader.read(unit.frame)
            rows = frame.rows
            sequences, positions = frame.sequences.astype(np.int32), frame.positions.astype(np.int32)
            tokens = None if frame.tokens is None else frame.tokens.astype(np.int32)
        made = self._runner.step(positions=positions, sequences=sequences, tokens=tokens, rows=rows)
        told = None if tokens is None or not chain.vocabulary else tokens.astype(np.uint32)
        frame_out = self._writer.write(
            made, sequences.astype(np.uint32), positions.astype(np.uint32), tokens=told
        )
        return encode(
            Unit(
                run=unit.run,
                number=unit.number,
                urgent=unit.urgent,
                trims=unit.trims,
                frame=frame_out,
            )
        )
