"""The driver's context: a step goes to the first stage as token ids, and comes back as rows for the last.

Stands in for `llama.context.Context` in the engine's loop. The main thread waits here for rows, and reads
them itself; the other thread only tells what went wrong. Chunks of a prompt are sent ahead of the step that
will ask for them, so that the stages before this one compute while it computes.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshllm_core.engine.batch_pace import BatchPace
from meshllm_core.engine.chain import Ids, Unit, decode, encode, form_of
from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.unit_socket import ChildUnits
from meshllm_core.errors import EngineError, WireError
from meshllm_core.wire.codecs.base import Rows
from meshllm_core.wire.stage_frames import StageFrameReader

WAIT_SECONDS = 120.0
"""So long a unit may take: a chain whose stages do not answer is ended by the node long before."""
REFUSED_SECONDS = 10.0
"""So long after a stage refused a unit rows may take: it may have been another unit than the one awaited."""
NEVER = 1 << 62
SMOOTHING = 0.2
TRIPS = 32
"""Trips of which the shortest counts: the others waited for a stage."""


class ChainEnded(EngineError):
    """The chain is broken: nothing that was begun can be finished."""

    code = "chain_broken"


@dataclass(frozen=True)
class _Part:
    tokens: Ids
    start: int
    sequence: int
    last: bool
    """Whether logits of its last position are wanted."""

    @property
    def key(self) -> tuple[int, int, int]:
        """What tells the same part of a prompt from another."""
        return self.sequence, self.start, len(self.tokens)

    @property
    def positions(self) -> Ids:
        """Of each token."""
        return np.arange(self.start, self.start + len(self.tokens), dtype=np.int32)


@dataclass(frozen=True)
class _Sent:
    """A unit under way."""

    keys: list[tuple[int, int, int]]
    """The parts in it, in the order of its rows."""
    at: float
    urgent: bool
    sequences: bytes
    positions: bytes
    """int32 of each of its rows, as they were sent."""
    void: set[tuple[int, int, int]] = field(default_factory=set)
    """Those of them that nobody wants any more."""

    @property
    def wanted(self) -> list[tuple[int, int, int]]:
        """The others."""
        return [key for key in self.keys if key not in self.void]


class SplitContext:
    """See `llama.context.Context`; used from one thread, but for `complain` and `fail`."""

    def __init__(
        self,
        runner: StageRunner,
        chain: ChainSpec,
        units: ChildUnits,
        refuse: Callable[[str], None],
    ) -> None:
        """The node passes `units` to the first stage, and those of the stage before this one back; `refuse`
        tells it what came and could not be used."""
        self.model = runner.model
        self.handle = runner.handle
        self.capacity = runner.capacity
        self.cells = runner.cells
        self.chunk, self.ahead_limit = chain.chunk, chain.ahead
        self._runner, self._chain, self._units, self._refuse = runner, chain, units, refuse
        self._reader = StageFrameReader(form_of(chain))
        self._parts: list[_Part] = []
        self._next: list[_Part] = []
        self._number = 0
        self._under_way: dict[int, _Sent] = {}
        """By number of the unit."""
        self._trips: deque[float] = deque(maxlen=TRIPS)
        """Milliseconds that the last units with decodes took from here to here."""
        self._made: dict[tuple[int, int, int], Rows] = {}
        """Rows that are here, in the order in which they came."""
        self._pace = BatchPace()
        self._trims: dict[int, int] = {}
        self.stage_ms = 0.0
        """What a step of decodes takes here, smoothed."""
        self._most_in_flight = 0

    # KV cache -------------------------------------------------------------------------------

    def drop(self, sequence: int, start: int = 0) -> bool:
        """Forget positions from `start` on, here and, with the next unit, in all stages before."""
        self._trims[sequence] = min(start, self._trims.get(sequence, start))
        for sent in self._under_way.values():
            sent.void.update(key for key in sent.keys if key[0] == sequence and key[1] >= start)
        for key in [key for key in self._made if key[0] == sequence and key[1] >= start]:
            del self._made[key]
        try:
            self._runner.trim(sequence, start)
        except EngineError:
            return False
        return True

    shares = False
    """A sequence cannot begin as another does: the other's rows may still wait in a stage."""

    def share(self, source: int, target: int, end: int) -> None:
        """Never asked for: see `shares`."""
        raise EngineError("Sequences of a split model share nothing.")

    def first_position(self, sequence: int) -> int:
        """A window of another stage may have forgotten what this one still holds: nothing is reused then."""
        return NEVER

    def state_size(self, sequence: int) -> int:
        """More than any parking takes: a sequence lies in all stages and cannot be taken out of one."""
        return NEVER

    def save(self, sequence: int, size: int) -> bytearray:
        """Never asked for: see `state_size`."""
        raise EngineError("A sequence of a split model cannot be parked.")

    def restore(self, sequence: int, state: bytearray) -> bool:
        """Nothing is ever saved."""
        return False

    def interrupt(self) -> None:
        """A step is over when all stages are through with it; the next one is short."""

    def resume(self) -> None:
        """See `interrupt`."""

    # Steps ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a new batch."""
        self._parts, self._next = [], []

    def add(self, tokens: Sequence[int], start: int, sequence: int, *, last_logits: bool) -> int:
        """Append tokens at positions start.. of a sequence; returns the index of the last one."""
        self._parts.append(_Part(np.asarray(tokens, np.int32), start, sequence, last_logits))
        return sum(len(part.tokens) for part in self._parts) - 1

    def ahead(self, tokens: Sequence[int], start: int, sequence: int) -> None:
        """These will be added in a later step, in chunks: they may be on their way before."""
        ids = np.asarray(tokens, np.int32)
        for at in range(0, len(ids), self.chunk):
            self._next.append(_Part(ids[at : at + self.chunk], start + at, sequence, last=False))

    def select(self, meanwhile: Callable[[], None]) -> list[bool]:
        """Sends off what of the batch is not under way, does something `meanwhile`, and waits until rows of
        some part of it are here.

        Returns for each part, in the order of `add`, whether it is: `decode` computes those only, and the
        others are added again to the next batch. So requests do not wait for each other's trips.
        Raises ChainEnded.
        """
        self._send_off()
        meanwhile()
        while not any(part.key in self._made for part in self._parts):
            self._wait()
        self._take_what_came()
        chosen = self._chosen()
        here = [part.key in chosen for part in self._parts]
        self._parts = [part for part, came in zip(self._parts, here, strict=True) if came]
        return here

    def _chosen(self) -> set[tuple[int, int, int]]:
        """Of the parts that are here those that are computed now: all, or what came first where decodes
        together cost as much as one by one."""
        asked = {part.key for part in self._parts}
        here = [key for key in self._made if key in asked]
        decodes = [key for key in here if key[2] == 1]
        if len(decodes) < 2 or len(decodes) < len(here) or self._pace.together(len(decodes)):
            return set(here)
        return set(decodes[:1])

    def decode(self) -> int:
        """Compute the selected parts in the last stage. Always 0."""
        self._compute()
        return 0

    def _send_off(self) -> None:
        known = {key for sent in self._under_way.values() for key in sent.wanted} | set(self._made)
        decodes = [part for part in self._parts if len(part.tokens) == 1 and part.key not in known]
        size = self._group()
        for at in range(0, len(decodes), size):
            self._dispatch(decodes[at : at + size], urgent=True)
        for part in self._parts:
            if len(part.tokens) > 1 and part.key not in known:
                self._dispatch([part], urgent=False)
        for part in self._next:
            chunks = sum(not sent.urgent for sent in self._under_way.values()) + len(self._made)
            if chunks > self.ahead_limit:
                break
            if part.key not in known:
                self._dispatch([part], urgent=False)

    def _group(self) -> int:
        """How many requests' decodes travel together: so few that enough units are under way to keep the
        stages at work while others travel, and no fewer, because rows computed together cost less.
        """
        lanes = sum(len(part.tokens) == 1 for part in self._parts)
        if not self._trips or not self.stage_ms or lanes < 2:
            return max(1, lanes)
        if not self._pace.pays(lanes):
            return 1
        units = int((min(self._trips) + self.stage_ms) / self.stage_ms)
        return -(-lanes // max(1, min(lanes, units)))

    def _dispatch(self, parts: list[_Part], *, urgent: bool) -> None:
        self._number += 1
        if not self._under_way:
            self._forget_complaints()
        sequences, positions, tokens = _joined(parts)
        unit = Unit(
            run=self._chain.run,
            number=self._number,
            urgent=urgent,
            trims=self._taken_trims(),
            sequences=sequences.tobytes(),
            positions=positions.tobytes(),
            tokens=tokens.tobytes(),
        )
        self._under_way[self._number] = _Sent(
            [part.key for part in parts], time.monotonic(), urgent, unit.sequences, unit.positions
        )
        self._most_in_flight = max(self._most_in_flight, self._in_flight())
        self._units.send(encode(unit))

    def _in_flight(self) -> int:
        return sum(key[2] for sent in self._under_way.values() for key in sent.keys)

    def most_in_flight(self) -> int:
        """Tokens that were under way at the same time, at most, since the last call."""
        most, self._most_in_flight = self._most_in_flight, self._in_flight()
        return most

    def _taken_trims(self) -> bytes:
        if not self._trims:
            return b""
        trims, self._trims = self._trims, {}
        return np.asarray(list(trims.items()), np.uint32).tobytes()

    def _forget_complaints(self) -> None:
        """Nothing is under way: what was refused is not what will be awaited."""
        kept = []
        while (came := self._units.get(0)) is not None:
            if not isinstance(came, str):
                kept.append(came)
        self._units.put_back(kept)

    def _take_what_came(self) -> None:
        """Without waiting. A complaint stays: it shortens the wait for what has not come."""
        complaints = []
        while (came := self._units.get(0)) is not None:
            if isinstance(came, ChainEnded):
                raise came
            if isinstance(came, bytes):
                try:
                    self._take(came)
                except WireError as error:
                    self._refuse(f"Rows were refused: {error.message}")
            else:
                complaints.append(came)
        self._units.put_back(complaints)

    def _wait(self) -> None:
        """For the next rows that are of use, or not. Raises ChainEnded when none come."""
        whose = f" on {self._chain.others}" if self._chain.others else ""
        seconds, why = WAIT_SECONDS, f"The stages{whose} gave nothing for {WAIT_SECONDS:.0f} s."
        while True:
            came = self._units.get(seconds)
            if came is None:
                raise ChainEnded(why)
            if isinstance(came, ChainEnded):
                raise came
            if isinstance(came, bytes):
                try:
                    self._take(came)
                    return
                except WireError as error:
                    came = f"Rows were refused: {error.message}"
                    self._refuse(came)
            seconds, why = REFUSED_SECONDS, str(came)

    def _take(self, came: bytes) -> None:
        """Raises WireError for what is not what was asked for; that is still awaited."""
        unit = decode(came, self._chain.run)
        sent = self._under_way.get(unit.number)
        if sent is None:
            return
        frame = self._reader.read(unit.frame)
        if frame.sequences.tobytes() != sent.sequences or frame.positions.tobytes() != sent.positions:
            raise WireError("The rows are not those that were asked for.", param="position")
        del self._under_way[unit.number]
        if sent.urgent:
            self._trips.append((time.monotonic() - sent.at) * 1000)
        at = 0
        for key in sent.keys:
            if key not in sent.void:
                self._made[key] = frame.rows[at : at + key[2]]
            at += key[2]

    def _compute(self) -> None:
        made = [self._made.pop(part.key) for part in self._parts]
        rows = made[0] if len(made) == 1 else np.concatenate(made)
        sequences, positions, tokens = _joined(self._parts)
        outputs = np.zeros(len(rows), np.bool_)
        end = 0
        for part in self._parts:
            end += len(part.tokens)
            outputs[end - 1] = part.last
        began = time.monotonic()
        self._runner.step(positions=positions, sequences=sequences, tokens=tokens, rows=rows, outputs=outputs)
        if len(rows) == len(self._parts):
            took = time.monotonic() - began
            self._pace.note(len(rows), took)
            if len(rows) == 1 or not self.stage_ms:
                took *= 1000
                self.stage_ms = self.stage_ms + SMOOTHING * (took - self.stage_ms) if self.stage_ms else took

    def logits_address(self, index: int) -> int:
        """Address of the float32 logits [n_vocab] of the batch's token `index`."""
        return self._runner.logits_address(index)

    def embed(self, tokens: Sequence[int]) -> list[float]:
        """Models that only make embeddings are not divided."""
        raise EngineError("A model that makes embeddings is not split.")

    # From the other thread ------------------------------------------------------------------

    def complain(self, message: str) -> None:
        """A stage refused a unit."""
        self._units.wake(message)

    def fail(self, message: str) -> None:
        """The chain is broken."""
        self._units.wake(ChainEnded(message))


def _joined(parts: Sequence[_Part]) -> tuple[Ids, Ids, Ids]:
    """Sequences, positions and tokens of parts, a row for each token. Most steps are one row."""
    if len(parts) == 1:
        (part,) = parts
        return np.full(len(part.tokens), part.sequence, np.int32), part.positions, part.tokens
    counts = [len(part.tokens) for part in parts]
    return (
        np.repeat(np.asarray([part.sequence for part in parts], np.int32), counts),
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.tokens for part in parts]),
    )
