"""`python -m meshllm_core.engine.certify`: measures codecs on a real model; a job on stdin, lines on stdout.

A process of its own, because llama.cpp may abort. First the whole model answers every prompt greedily and
its logits along each answer are kept as a hash; then, with the whole model gone, the stages go over the same
tokens. So no more than one copy of the weights is in memory.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from meshllm_core.certify.measure import Boundary, Measurement, digest
from meshllm_core.certify.record import backend_of
from meshllm_core.engine.certify_protocol import CertifyJob, Doing, Failed, Line, Measured, Over, job_decoder
from meshllm_core.engine.llama.library import device_handles, version
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.errors import EngineError, MeshError
from meshllm_core.wire.codecs import dtype_named
from meshllm_core.wire.codecs.base import Rows

_CANDIDATES = 16
"""The greedy answer goes on past the model's own end: the best token that ends nothing is among so many."""


@dataclass(frozen=True)
class Answer:
    """A prompt with the whole model's greedy answer, but for its last token."""

    tokens: tuple[int, ...]
    positions: int
    """So many of the last positions predict the answer."""
    digest: bytes
    """Of the whole model's logits there."""


class StageChain:
    """The stages in this process: a `certify.measure.Chain`."""

    def __init__(self, runners: Sequence[StageRunner]) -> None:
        self._runners = runners

    def start(self, tokens: Sequence[int]) -> Rows:
        """See `Chain.start`."""
        return _step(self._runners[0], tokens, None, 0)

    def finish(self, tokens: Sequence[int], rows: Rows, boundary: Boundary, answers: int) -> Rows:
        """See `Chain.finish`."""
        for runner in self._runners[1:]:
            rows = _step(runner, tokens, boundary(rows), answers)
        return rows


def _step(
    runner: StageRunner, tokens: Sequence[int], rows: Rows | None, answers: int, start: int = 0
) -> Rows:
    """All tokens of the one sequence at once, from position `start` on; logits of the last `answers`."""
    count = len(tokens)
    outputs = np.zeros(count, np.bool_)
    outputs[count - answers :] = True
    return runner.step(
        positions=np.arange(start, start + count, dtype=np.int32),
        sequences=np.zeros(count, np.int32),
        tokens=np.asarray(tokens, np.int32),
        rows=rows,
        outputs=outputs,
    )


def measure(job: CertifyJob, tell: "Teller") -> None:
    """Does the job. Raises MeshError."""
    answers = _answers(job, tell)
    for number, specs in enumerate(job.chains):
        runners = [StageRunner(spec) for spec in specs]
        try:
            shape = runners[0].shape
            dtypes = [dtype_named(label) for label in job.dtypes]
            measurement = Measurement(dtypes, shape.width * shape.streams, job.seeds)
            chain = StageChain(runners)
            for done, answer in enumerate(answers):
                tell(Doing(phase="measuring", done=done, total=len(answers)))
                measurement.add(chain, answer.tokens, answer.positions, answer.digest)
        finally:
            for runner in runners:
                runner.close()
        tell(
            Measured(
                chain=number,
                figures={dtype.label: figures for dtype, figures in measurement.figures().items()},
                widened={dtype.label: count for dtype, count in measurement.widened.items()},
            )
        )
    tell(Over(llama_cpp=version(), backend=_backend(job.whole.device)))


def _answers(job: CertifyJob, tell: "Teller") -> list[Answer]:
    runner = StageRunner(job.whole)
    try:
        found = []
        for done, prompt in enumerate(job.prompts):
            tell(Doing(phase="answering", done=done, total=len(job.prompts)))
            found.append(_answer(runner, prompt, job.answer_tokens))
        return found
    finally:
        runner.close()


def _answer(runner: StageRunner, prompt: str, length: int) -> Answer:
    tokens = list(runner.model.tokenize(prompt, add_special=True, parse_special=False))
    if not tokens or len(tokens) + length > runner.capacity:
        raise EngineError(
            f"A prompt of the measurement has {len(tokens)} tokens in this model's vocabulary.",
            hint="It cannot be measured: its tokenizer is not one for text.",
        )
    asked = len(tokens)
    logits = _step(runner, tokens, None, 1)
    while len(tokens) < asked + length - 1:
        tokens.append(_best(runner, logits[0]))
        logits = _step(runner, tokens[-1:], None, 1, start=len(tokens) - 1)
    # Once more in one piece: chunks of another size give other roundings, and the stages get one piece too.
    return Answer(tuple(tokens), length, digest(_step(runner, tokens, None, length)))


def _best(runner: StageRunner, logits: Rows) -> int:
    count = min(_CANDIDATES, len(logits))
    best = np.argpartition(logits, -count)[-count:]
    for token in best[np.argsort(-logits[best], kind="stable")]:
        if not runner.model.is_end(int(token)):
            return int(token)
    raise EngineError("The model has nothing to say to a prompt of the measurement.")


def _backend(device: str) -> str:
    """The kinds of the devices that `device` means to llama.cpp, as in `CUDA0`, without their numbers."""
    if device.lower() == "cpu":
        return "cpu"
    names = [found.name for found, _ in device_handles() if found.kind in ("gpu", "integrated_gpu")]
    if device != "auto":
        names = [name for name in names if name.lower() == device.lower()]
    return backend_of(tuple(name.rstrip("0123456789").lower() for name in names) or ("cpu",))


class Teller:
    """Writes lines to what was stdout; llama.cpp's own words go to stderr."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def __call__(self, line: Line) -> None:
        """One line."""
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()


def main() -> None:
    """Reads the job, measures, tells."""
    tell = Teller()
    try:
        measure(job_decoder.decode(sys.stdin.buffer.read()), tell)
    except MeshError as error:
        tell(Failed(message=error.message, hint=error.hint))


if __name__ == "__main__":
    main()
