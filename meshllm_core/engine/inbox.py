"""Everything between the socket and the loop: checks, tokenizing, the bound on waiting requests."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from meshllm_core.engine.contexts import AnyContext
from meshllm_core.engine.job import EngineJob, prepare
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.protocol import (
    Answer,
    Cancel,
    Chunks,
    Detokenize,
    Embed,
    FromChild,
    Generate,
    LoadSpec,
    Tokenize,
)
from meshllm_core.engine.types import Finished, GenerationRequest, Refused
from meshllm_core.errors import ContextLengthExceeded, InvalidRequest


@dataclass
class Inbox:
    """Runs in the reader thread, except `embed` and `as_job`. `queue` is read by the main thread.

    The queue is bounded by what it admits: requests up to lanes + queue_limit, and one cancel for each.
    """

    model: Model
    context: AnyContext
    spec: LoadSpec
    deliver: Callable[[FromChild], None]
    embeddings: bool

    def __post_init__(self) -> None:
        self.queue: queue.SimpleQueue[EngineJob | Cancel | Embed] = queue.SimpleQueue()
        self._open = 0
        self._lock = threading.Lock()

    @property
    def context_limit(self) -> int:
        """Tokens one request may use."""
        return min(self.spec.context, self.context.cells, self.model.last_position or self.spec.context)

    def receive(self, message: object) -> None:
        """Act on a message from the node."""
        match message:
            case Generate():
                self._generate(message.request)
            case Cancel():
                self.queue.put(message)
            case Embed():
                self._queue_embed(message)
            case Tokenize():
                tokens = self.model.tokenize(
                    message.text, add_special=message.add_special, parse_special=message.parse_special
                )
                self.deliver(Answer(call=message.call, tokens=tuple(tokens)))
            case Detokenize():
                self._detokenize(message)

    def closed(self, count: int) -> None:
        """That many requests are over and make room for others."""
        with self._lock:
            self._open -= count

    def _admits(self) -> bool:
        with self._lock:
            if self._open >= self.spec.lanes + self.spec.queue_limit:
                return False
            self._open += 1
            return True

    def _generate(self, request: GenerationRequest) -> None:
        if self.embeddings:
            text = f"{self.spec.files[0]} gives embeddings and generates no text."
            self._refuse(request, "invalid_value", text, "model")
            return
        if not self._admits():
            self._refuse(request, "rate_limit_exceeded", self._full())
            return
        try:
            self.queue.put(prepare(self.model, request, self.context_limit))
        except InvalidRequest as error:
            self.closed(1)
            code = "context_length_exceeded" if error.code == "context_length_exceeded" else "invalid_value"
            self._refuse(request, code, str(error), error.param)

    def _full(self) -> str:
        return f"All {self.spec.lanes} lanes are busy and {self.spec.queue_limit} requests wait already."

    def _refuse(self, request: GenerationRequest, code: str, text: str, param: str | None = None) -> None:
        refused = Refused(
            request_id=request.request_id,
            code=code,  # type: ignore[arg-type]
            message=text,
            param=param,
        )
        self.deliver(Chunks(items=(refused,)))

    def _detokenize(self, message: Detokenize) -> None:
        wrong = next((t for t in message.tokens if not 0 <= t < self.model.n_vocab), None)
        if wrong is not None:
            text = f"Token {wrong} is not in the vocabulary of {self.model.n_vocab}."
            self.deliver(Answer(call=message.call, error=text, error_code="invalid_value"))
            return
        data = b"".join(self.model.piece(token, special=True) for token in message.tokens)
        self.deliver(Answer(call=message.call, text=data.decode(errors="replace")))

    def _queue_embed(self, message: Embed) -> None:
        if not self.embeddings:
            text = f"{self.spec.files[0]} generates text and gives no embeddings."
            self.deliver(Answer(call=message.call, error=text, error_code="unsupported_model_feature"))
        elif self._admits():
            self.queue.put(message)
        else:
            self.deliver(Answer(call=message.call, error=self._full(), error_code="rate_limit_exceeded"))

    def embed(self, message: Embed) -> None:
        """Compute the embeddings of a message, one text after the other (main thread)."""
        try:
            pairs = tuple(self._embed_one(text) for text in message.inputs)
        except InvalidRequest as error:
            code = "context_length_exceeded" if error.code == "context_length_exceeded" else "invalid_value"
            self.deliver(Answer(call=message.call, error=str(error), error_code=code))  # type: ignore[arg-type]
        else:
            self.deliver(Answer(call=message.call, embeddings=pairs))
        finally:
            self.closed(1)

    def _embed_one(self, text: str | tuple[int, ...]) -> tuple[list[float], int]:
        tokens = (
            self.model.tokenize(text, add_special=True, parse_special=False)
            if isinstance(text, str)
            else list(text)
        )
        if not tokens:
            raise InvalidRequest("An input is empty.", param="input")
        if len(tokens) > self.context_limit:
            raise ContextLengthExceeded(
                f"An input has {len(tokens)} tokens; this model takes {self.context_limit}.",
                hint="Cut the text into parts.",
                param="input",
            )
        wrong = next((t for t in tokens if not 0 <= t < self.model.n_vocab), None)
        if wrong is not None:
            raise InvalidRequest(f"Token {wrong} is not in the vocabulary.", param="input")
        return self.context.embed(tokens), len(tokens)

    def as_job(self, message: object) -> EngineJob:
        """The queue's only other kind of entry."""
        if not isinstance(message, EngineJob):
            raise TypeError(f"unexpected {type(message).__name__} in the engine's queue")
        return message


def ended(chunks: Chunks) -> int:
    """How many requests a message ends."""
    return sum(isinstance(item, Finished | Refused) for item in chunks.items)
