"""The engine's one loop: admit, make room, compute a step, sample, tell. Runs in the child's main thread."""

import itertools
import time
from collections.abc import Callable

from meshllm_core.engine.contexts import AnyContext
from meshllm_core.engine.job import EngineJob
from meshllm_core.engine.llama.context import INTERRUPTED, NO_ROOM
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.llama.sampler import GrammarDeadEnd
from meshllm_core.engine.meter import Meter
from meshllm_core.engine.protocol import Chunks, LoadSpec, Stats
from meshllm_core.engine.scheduler import (
    PREFILL_ALONE_SECONDS,
    UNINTERRUPTED_SECONDS,
    FixedChunk,
    Lanes,
    PrefillRate,
    Work,
    plan_step,
)
from meshllm_core.engine.slots import Slots
from meshllm_core.engine.split_context import SplitContext
from meshllm_core.engine.types import Delta, Finished, Refused, Started, StopReason
from meshllm_core.ids import RequestId

LONG_CHUNK = 64
"""Tokens; a step with a chunk of at least this size is worth interrupting."""

FLUSH_SECONDS = 0.04
"""Text of faster models is sent this often. Each hand-over takes the node and the client processor time
that the engine's threads wait for; a film does not change its picture more often."""

Item = Started | Delta | Finished | Refused


class EngineLoop:
    """Continuous batching of many requests over one context."""

    def __init__(
        self,
        model: Model,
        context: AnyContext,
        spec: LoadSpec,
        send: Callable[[Chunks | Stats], None],
    ) -> None:
        self._model = model
        self._context = context
        self._send = send
        self._lanes: Lanes[EngineJob] = Lanes(spec.lanes)
        self._slots = Slots(
            model,
            context,
            sequences=spec.lanes + spec.prefix_slots,
            parking_bytes=spec.parking_bytes,
        )
        self._ledger = self._slots.ledger
        # A recurrent state cannot be taken back to where an interrupted step began.
        self._interruptible = not model.recurrent
        self._ahead = context.ahead_limit
        self._rate = (
            FixedChunk(largest_chunk=context.chunk)
            if self._ahead
            else PrefillRate(
                largest_chunk=spec.prefill_chunk,
                alone_seconds=PREFILL_ALONE_SECONDS if self._interruptible else UNINTERRUPTED_SECONDS,
            )
        )
        self.prefilling: frozenset[RequestId] = frozenset()
        """Requests with a long chunk in the running step: cancelling one of them may interrupt it."""
        self._meter = Meter()
        self._lanes_changed = False
        self._items: list[Item] = []
        self._sent = 0.0
        self._streaming: set[RequestId] = set()
        """Requests whose first text was sent."""

    @property
    def busy(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._lanes.active or self._lanes.waiting)

    def submit(self, job: EngineJob) -> None:
        """Queue a prepared job; it starts with the next step that has a lane for it."""
        self._lanes.waiting.append(job)

    def cancel(self, request_id: RequestId) -> None:
        """Stop a request, waiting or running; unknown ids are already over."""
        for job in [*self._lanes.active, *self._lanes.waiting]:
            if job.request.request_id == request_id:
                self._finish(job, "cancelled")
                self._flush()
                return

    def fail(self, message: str) -> None:
        """Nothing that was begun can be finished: every request is refused with these words."""
        for job in [*self._lanes.active, *self._lanes.waiting]:
            if job in self._lanes.active:
                self._slots.drop(job.sequence)
                self._ledger.release(job.sequence)
            self._items.append(
                Refused(request_id=job.request.request_id, code="internal_error", message=message)
            )
            job.sampler.close()
        self._lanes.active.clear()
        self._lanes.waiting.clear()
        self._lanes_changed = True
        self._flush()

    def step(self) -> None:
        """One batch: admit, compute, sample, send."""
        self._admit()
        if self._lanes.active:
            if self._lanes_changed:
                self._slots.park_idle()
                self._lanes_changed = False
            self._compute()
        if not (self._ahead and self._lanes.active):
            # Else it is told while the next step of a chain is on its way.
            self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        self._flush(now=now)
        self._streaming = {job.request.request_id for job in self._lanes.active if job.generated}
        stats = self._meter.due(now, active=len(self._lanes.active), queued=len(self._lanes.waiting))
        if stats is not None:
            self._send(self._stats(*stats))

    def idle_stats(self) -> None:
        """Say once that nothing runs any more."""
        if self._meter.went_idle():
            self._send(self._stats(0.0, 0.0))

    def _stats(self, decode: float, prompt: float) -> Stats:
        return Stats(
            decode_tokens_per_second=decode,
            prompt_tokens_per_second=prompt,
            active=len(self._lanes.active),
            queued=len(self._lanes.waiting),
            cells_used=self._ledger.used,
            cells_total=self._ledger.total,
            stage_ms=self._context.stage_ms,
            in_flight=self._context.most_in_flight() if self._lanes.active else 0,
        )

    # Lanes and sequences --------------------------------------------------------------------

    def _admit(self) -> None:
        while self._lanes.waiting and self._lanes.free():
            job = self._lanes.waiting.popleft()
            first_time = not job.admitted
            job.admitted = job.admitted or time.monotonic()
            if job.limit <= 0:
                self._items += [job.started(), job.finished("length")]
                job.sampler.close()
                continue
            self._slots.place(job)
            if first_time:
                job.cached = job.held
                self._items.append(job.started())
            self._lanes.active.append(job)
            self._lanes_changed = True

    # One step -------------------------------------------------------------------------------

    def _compute(self) -> None:
        while self._lanes.active:
            work = plan_step(self._lanes.active, self._rate, capacity=self._context.capacity)
            work = self._make_room(work)
            if not work:
                continue
            began = time.monotonic()
            ends = self._fill(work)
            if isinstance(self._context, SplitContext):
                work, ends = _chosen(work, self._context.select(self._tell))
            code = self._decode(work)
            if code == NO_ROOM:
                self._give_way()
                continue
            if code == INTERRUPTED:
                return
            self._note(work, time.monotonic() - began)
            for part, index in zip(work, ends, strict=True):
                if part.finishes:
                    self._sample(part.job, index)
            return

    def _decode(self, work: list[Work[EngineJob]]) -> int:
        if self._interruptible:
            self.prefilling = frozenset(
                part.job.request.request_id for part in work if part.count >= LONG_CHUNK
            )
        code = self._context.decode()
        self.prefilling = frozenset()
        return code

    def _make_room(self, work: list[Work[EngineJob]]) -> list[Work[EngineJob]]:
        """Evict idle prefixes until the batch has cells; then shorten prefill; then let a request wait."""
        need = sum(part.count for part in work)
        self._slots.make_room(need)
        free = self._ledger.free
        if free >= need:
            return work
        kept = []
        for part in work:
            count = min(part.count, free)
            if count:
                kept.append(Work(part.job, count, part.finishes and count == part.count))
                free -= count
        if not kept:
            self._give_way()
        return kept

    def _give_way(self) -> None:
        """Free cells: an idle prefix, else the youngest request, which starts over when there is room."""
        if self._slots.give_up_oldest_idle():
            return
        job = self._lanes.active.pop()
        self._slots.drop(job.sequence)
        self._ledger.release(job.sequence)
        job.held = 0
        if self._lanes.active:
            self._lanes.waiting.appendleft(job)
            return
        job.sampler.close()
        text = f"The KV cache of {self._ledger.total} cells cannot hold this request."
        self._items.append(
            Refused(request_id=job.request.request_id, code="context_length_exceeded", message=text)
        )

    def _fill(self, work: list[Work[EngineJob]]) -> list[int]:
        self._context.begin()
        ends = []
        for part in work:
            job = part.job
            tokens = job.tokens[job.held : job.held + part.count]
            ends.append(self._context.add(tokens, job.held, job.sequence, last_logits=part.finishes))
            if self._ahead and not part.finishes:
                after = job.held + part.count
                window = job.tokens[after : after + self._ahead * self._context.chunk]
                self._context.ahead(window, after, job.sequence)
        return ends

    def _note(self, work: list[Work[EngineJob]], seconds: float) -> None:
        for part in work:
            job = part.job
            self._ledger.extend(job.sequence, job.tokens[job.held : job.held + part.count])
            job.held += part.count
        prompt = sum(part.count for part in work if part.count > 1 or not part.job.generated)
        if prompt:
            # A decode's row costs what a prompt's row costs, so all rows count for the speed.
            self._rate.note(sum(part.count for part in work), seconds)
        self._meter.note(prompt_tokens=prompt, decoded=sum(part.finishes for part in work), seconds=seconds)

    def _sample(self, job: EngineJob, index: int) -> None:
        try:
            token, logprobs = job.sampler.sample(self._context, index)
        except GrammarDeadEnd:
            self._finish(job, "stop")
            return
        if self._model.is_end(token) and not job.request.ignore_eos:
            self._finish(job, "stop")
            return
        piece = self._model.piece(token, special=token in job.visible)
        delta = job.take(token, piece, logprobs, time.monotonic())
        if delta is not None:
            self._items.append(delta)
        if job.assembler.stopped_by:
            self._finish(job, "stop")
        elif job.generated >= job.limit:
            self._finish(job, "length")

    def _finish(self, job: EngineJob, reason: StopReason) -> None:
        if job in self._lanes.active:
            self._lanes.active.remove(job)
            self._ledger.release(job.sequence)
            self._lanes_changed = True
        else:
            self._lanes.waiting.remove(job)
        rest = job.rest()
        if rest is not None:
            self._items.append(rest)
        self._items.append(job.finished(reason))
        job.sampler.close()

    def _flush(self, *, now: float = 0.0) -> None:
        """Send what there is. With `now`, text that comes faster than FLUSH_SECONDS waits for more."""
        if not self._items or (now and now - self._sent < FLUSH_SECONDS and self._may_wait()):
            return
        self._send(Chunks(items=tuple(self._items)))
        self._items = []
        self._sent = now or time.monotonic()

    def _may_wait(self) -> bool:
        """Only text waits, and never the first of an answer."""
        return all(isinstance(item, Delta) and item.request_id in self._streaming for item in self._items)


def _chosen(work: list[Work[EngineJob]], here: list[bool]) -> tuple[list[Work[EngineJob]], list[int]]:
    """The parts that are here, and where each ends in their batch."""
    kept = [part for part, came in zip(work, here, strict=True) if came]
    return kept, [end - 1 for end in itertools.accumulate(part.count for part in kept)]
