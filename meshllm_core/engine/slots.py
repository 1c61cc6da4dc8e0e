"""Which sequence of the KV cache a request computes in, and how much of its prompt is there already."""

from collections.abc import Sequence

from meshllm_core.engine.contexts import AnyContext
from meshllm_core.engine.job import EngineJob
from meshllm_core.engine.kv import Ledger
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.parking import Parked, Parking

IDLE_CELLS = 512
"""Cells that idle sequences may hold while requests compute; what is beyond is parked."""
WORTH_PARKING = 32
"""Tokens; shorter beginnings are computed again as fast as they are moved."""


class Slots:
    """The ledger, the parking and llama.cpp's memory, kept in step."""

    def __init__(self, model: Model, context: AnyContext, *, sequences: int, parking_bytes: int) -> None:
        self._model = model
        self._context = context
        self.ledger = Ledger(sequences, context.cells)
        self.parking = Parking(parking_bytes)

    def place(self, job: EngineJob) -> None:
        """Give the job a sequence that holds as much of its beginning as can be reused."""
        # The last token is always computed: its logits are what the answer starts from.
        prompt = job.tokens[:-1]
        match = self.ledger.best_match(prompt)
        length = self._reusable(match.sequence, match.length) if match else 0
        if self._place_parked(job, prompt, beyond=length):
            return
        if match and length:
            held = len(self.ledger.sequences[match.sequence].tokens)
            spare = self._spare(match.sequence)
            if match.idle and (2 * length >= held or spare is None or self._model.recurrent):
                self._take(job, match.sequence, length)
                return
            if spare is not None and self._context.shares and not self._model.recurrent:
                self.drop(spare)
                self._context.share(match.sequence, spare, length)
                self.ledger.share(match.sequence, spare, length)
                self._take(job, spare, length)
                return
        self._take(job, self._vacated(), 0)

    def _place_parked(self, job: EngineJob, prompt: Sequence[int], *, beyond: int) -> bool:
        found = self.parking.best_match(prompt)
        if found is None or found[1] < beyond + WORTH_PARKING:
            return False
        entry, length = found
        if self._model.recurrent and length < len(entry.tokens):
            return False
        if self.ledger.free + self.ledger.idle_cells() < len(entry.tokens):
            return False
        # Taken out first: making room parks others, and those may push it out.
        self.parking.remove(entry)
        self.make_room(len(entry.tokens))
        sequence = self._vacated()
        if not self._context.restore(sequence, entry.state):
            self._context.drop(sequence)
            # Making room has moved what the caller had found: look again, without this entry.
            self.place(job)
            return True
        self.ledger.extend(sequence, entry.tokens)
        length = self._reusable(sequence, length)
        self._take(job, sequence, length)
        return True

    def _vacated(self) -> int:
        sequence = self.ledger.vacant()
        if sequence is None:  # there are more sequences than lanes, so an active job always leaves one
            raise AssertionError("no sequence is free though a lane is")
        self.park(sequence)
        return sequence

    def _spare(self, source: int) -> int | None:
        spare = self.ledger.vacant()
        return None if spare == source else spare

    def _take(self, job: EngineJob, sequence: int, held: int) -> None:
        self._trim(sequence, held)
        self.ledger.claim(sequence, job.request.request_id)
        job.sequence, job.held = sequence, held

    def _reusable(self, sequence: int, length: int) -> int:
        """How much of a match this kind of memory can really go on from."""
        state = self.ledger.sequences[sequence]
        if self._model.recurrent:
            return length if length == len(state.tokens) and not state.owner else 0
        if self._model.window:
            first = self._context.first_position(sequence)
            if first < 0 or first > max(0, length - self._model.window):
                return 0
        return length

    def _trim(self, sequence: int, length: int) -> None:
        if len(self.ledger.sequences[sequence].tokens) > length:
            self._context.drop(sequence, length)
            self.ledger.trim(sequence, length)

    def drop(self, sequence: int) -> None:
        """Forget everything a sequence holds."""
        self._trim(sequence, 0)

    def park(self, sequence: int) -> None:
        """Move an idle sequence out of the cache, keeping it if it is worth that and there is room."""
        tokens = self.ledger.sequences[sequence].tokens
        size = self._context.state_size(sequence) if len(tokens) >= WORTH_PARKING else 0
        if self.parking.admits(size):
            self.parking.make_room(size, tokens)
            self.parking.add(Parked(tuple(tokens), self._context.save(sequence, size)))
        self.drop(sequence)

    def park_idle(self) -> None:
        """While requests compute: idle sequences beyond IDLE_CELLS leave the cache, oldest first."""
        while self.ledger.idle_cells() > IDLE_CELLS and self._park_oldest():
            pass

    def make_room(self, cells: int) -> None:
        """Free so many cells if idle sequences hold enough."""
        while self.ledger.free < cells and self._park_oldest():
            pass

    def _park_oldest(self) -> bool:
        victim = self.ledger.oldest_idle()
        if victim is not None:
            self.park(victim)
        return victim is not None

    def give_up_oldest_idle(self) -> bool:
        """Forget the idle sequence unused for longest. False when there is none."""
        victim = self.ledger.oldest_idle()
        if victim is not None:
            self.drop(victim)
        return victim is not None
