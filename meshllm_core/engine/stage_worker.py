"""A stage that is not the last: computes units in the order in which they matter and passes them on.

Decodes go before chunks of prompts that wait. A trim holds from the moment it arrives: what waits and lies
beyond it was given up by the driver, and is dropped.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from meshllm_core.engine.batch_pace import BatchPace
from meshllm_core.engine.chain import Ids, Unit, decode, encode, form_of, ids, pairs, wire_dtype
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.types import ModelFacts
from meshllm_core.engine.unit_socket import ChildUnits
from meshllm_core.errors import EngineError, MeshError, WireError
from meshllm_core.wire.codecs.base import Rows
from meshllm_core.wire.stage_frames import StageFrameReader, StageFrameWriter

TOKENS = 1 << 30
"""No vocabulary is larger; who reads the tokens knows its own."""
UNITS_WAITING = 256
"""A driver sends a handful; more means that it lost its mind."""


class StageWorker:
    """Owned by the thread that computes, which also reads its units."""

    def __init__(
        self,
        runner: StageRunner,
        chain: ChainSpec,
        units: ChildUnits,
        *,
        refuse: Callable[[str], None],
    ) -> None:
        """`refuse` tells the node that a unit was refused, and why; the chain goes on."""
        self._runner, self._chain, self._units, self._refuse = runner, chain, units, refuse
        self._reader = StageFrameReader(form_of(chain))
        self._writer = StageFrameWriter(form_of(chain), wire_dtype(chain))
        self._pace = BatchPace()
        self._urgent: deque[Unit] = deque()
        self._chunks: deque[Unit] = deque()

    def facts(self, spec: LoadSpec) -> ModelFacts:
        """Of the stage's file."""
        return self._runner.model.facts(context=spec.context, embeddings=False)

    def run(self) -> None:
        """Until the process ends."""
        while True:
            self._accept(self._units.get())
            self._accept_more()
            while self._urgent or self._chunks:
                self.step()
                self._accept_more()

    def _accept_more(self) -> None:
        while (unit := self._units.get(0)) is not None:
            self._accept(unit)

    def step(self) -> None:
        """Computes a chunk, or the decodes that wait, as one batch where that pays, and passes them on."""
        if not self._urgent:
            units = [self._chunks.popleft()]
        elif self._pace.together(len(self._urgent)):
            units = [*self._urgent]
            self._urgent.clear()
        else:
            units = [self._urgent.popleft()]
        ready: list[tuple[Unit, _Inputs]] = []
        for unit in units:
            try:
                ready.append((unit, self._inputs(unit)))
            except WireError as error:
                self._refuse(f"A unit was refused: {error.message}")
        for batch in [ready] if self._one_step(ready) else [[one] for one in ready]:
            try:
                for made in self._computed(batch):
                    self._units.send(made)
            except MeshError as error:
                self._refuse(f"A unit was refused: {error.message}")

    def _one_step(self, ready: "list[tuple[Unit, _Inputs]]") -> bool:
        """Whether several units can be computed as one."""
        if len(ready) < 2:
            return False
        sequences = np.concatenate([inputs.sequences for _, inputs in ready])
        return len(sequences) <= self._runner.capacity and len(np.unique(sequences)) == len(sequences)

    def _accept(self, data: object) -> None:
        assert isinstance(data, bytes), "nobody tells a stage anything but units"
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
        if trims.size:
            # What was sent before a trim is computed before it.
            while self._urgent:
                self.step()
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

    def _inputs(self, unit: Unit) -> "_Inputs":
        """Raises WireError for what is none."""
        chain = self._chain
        if self._runner.shape.first:
            tokens = ids(unit.tokens, "token", None, TOKENS)
            sequences = ids(unit.sequences, "sequence", len(tokens), chain.sequences)
            return _Inputs(tokens, sequences, ids(unit.positions, "position", len(tokens), chain.positions))
        frame = self._reader.read(unit.frame)
        told = None if frame.tokens is None else frame.tokens.astype(np.int32)
        return _Inputs(told, frame.sequences.astype(np.int32), frame.positions.astype(np.int32), frame.rows)

    def _computed(self, batch: "list[tuple[Unit, _Inputs]]") -> list[bytes]:
        """The units for the next stage, of one step. Raises WireError, EngineError."""
        began = time.monotonic()
        made = self._runner.step(**_joined([one for _, one in batch]))
        if all(unit.urgent for unit, _ in batch):
            self._pace.note(len(made), time.monotonic() - began)
        results, at = [], 0
        for unit, one in batch:
            told = None if one.tokens is None or not self._chain.vocabulary else one.tokens.astype(np.uint32)
            frame = self._writer.write(
                made[at : at + len(one.positions)],
                one.sequences.astype(np.uint32),
                one.positions.astype(np.uint32),
                tokens=told,
            )
            at += len(one.positions)
            results.append(
                encode(
                    Unit(run=unit.run, number=unit.number, urgent=unit.urgent, trims=unit.trims, frame=frame)
                )
            )
        return results


@dataclass(frozen=True)
class _Inputs:
    tokens: Ids | None
    sequences: Ids
    positions: Ids
    rows: Rows | None = None

    @property
    def told(self) -> Ids:
        """The tokens, where there are any."""
        assert self.tokens is not None
        return self.tokens

    @property
    def computed(self) -> Rows:
        """The rows, where there are any."""
        assert self.rows is not None
        return self.rows


def _joined(inputs: Sequence[_Inputs]) -> "_Step":
    """As one step. Most are of one unit."""
    if len(inputs) == 1:
        (one,) = inputs
        return {
            "positions": one.positions,
            "sequences": one.sequences,
            "tokens": one.tokens,
            "rows": one.rows,
        }
    first = inputs[0]
    return _Step(
        positions=np.concatenate([one.positions for one in inputs]),
        sequences=np.concatenate([one.sequences for one in inputs]),
        tokens=None if first.tokens is None else np.concatenate([one.told for one in inputs]),
        rows=None if first.rows is None else np.concatenate([one.computed for one in inputs]),
    )


class _Step(TypedDict):
    positions: Ids
    sequences: Ids
    tokens: Ids | None
    rows: Rows | None
