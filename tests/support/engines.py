"""A real engine process over the default model, and a shorthand to run one request."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meshllm_core.engine.protocol import LoadSpec, Stats
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.engine.types import (
    Delta,
    Finished,
    GenerationRequest,
    PositionLogprobs,
    Sampling,
    Started,
)
from meshllm_core.ids import RequestId
from tests.support.default_model import require_default_model

GREEDY = Sampling(temperature=0)
_ids = itertools.count(1)


@dataclass
class Result:
    """Everything one request gave."""

    started: Started | None = None
    text: str = ""
    finished: Finished | None = None
    logprobs: list[PositionLogprobs] = field(default_factory=list)

    @property
    def end(self) -> Finished:
        """The last chunk, which must be there."""
        assert self.finished is not None
        return self.finished


def request(prompt: str | tuple[int, ...], **fields: Any) -> GenerationRequest:
    """A greedy request of 16 tokens unless said otherwise."""
    settings = {"max_tokens": 16, "sampling": GREEDY, **fields}
    return GenerationRequest(request_id=RequestId(f"r{next(_ids)}"), prompt=prompt, **settings)


async def run(engine: EngineProcess, prompt: str | tuple[int, ...], **fields: Any) -> Result:
    """One request to its end."""
    result = Result()
    async for chunk in engine.generate(request(prompt, **fields)):
        match chunk:
            case Started():
                result.started = chunk
            case Delta():
                result.text += chunk.text
                result.logprobs += chunk.logprobs
            case Finished():
                result.finished = chunk
    return result


@contextlib.asynccontextmanager
async def running_engine(tmp_path: Path, **spec: Any) -> AsyncIterator[EngineProcess]:
    """An engine with small defaults; `engine.seen` collects its Stats."""
    seen: list[Stats] = []
    engine = EngineProcess("test-model", tmp_path / "engine.log", seen.append)
    settings: dict[str, Any] = {
        "files": (str(require_default_model()),),
        "context": 512,
        "lanes": 2,
        "prefix_slots": 2,
        "queue_limit": 4,
        "threads": 1,
    }
    await engine.start(LoadSpec(**{**settings, **spec}), lambda fraction: None)
    try:
        yield engine
    finally:
        await engine.close()
