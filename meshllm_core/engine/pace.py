"""`python -m meshllm_core.engine.pace`: how fast this machine computes; a job on stdin, a result on stdout.

A process of its own, because llama.cpp may abort; with the lowest priority, because nobody waits for it.
Steps that others disturbed take longer: the shortest of each kind counts.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import psutil

from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.pace_protocol import SECONDS, PaceFound, PaceJob, job_decoder
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.models.pace_model import WEIGHTS, write_pace_model

DECODES = 24
PREFILLS = (32, 128, 128)
"""Tokens of the prompts, in the order in which they are computed while there is time."""
CONTEXT = 512


def measure(job: PaceJob) -> PaceFound:
    """Writes the model, loads it, and takes the time of its steps. Raises MeshError, OSError."""
    began, ends = time.monotonic(), _spent(job) + SECONDS
    with tempfile.TemporaryDirectory(prefix="pace-", dir=job.folder) as folder:
        file = Path(folder) / "pace.gguf"
        write_pace_model(file)
        spec = LoadSpec(
            files=(str(file),),
            context=CONTEXT,
            lanes=1,
            prefix_slots=0,
            queue_limit=1,
            batch=max(PREFILLS),
            threads=job.threads,
            device=job.device,
        )
        runner = StageRunner(spec, outputs=1)
        try:
            decode, prefill = _shortest(runner, lambda: ends - _spent(job))
        finally:
            runner.close()
    return PaceFound(
        decode=int(WEIGHTS / decode),
        prefill=int(WEIGHTS / prefill) if prefill else 0,
        seconds=time.monotonic() - began,
    )


def _spent(job: PaceJob) -> float:
    """Seconds of each thread's work: a machine that is busy makes it wait, which costs nobody anything."""
    return time.process_time() / job.threads


def _shortest(runner: StageRunner, left: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a decode, and of a prompt per token; 0 for what there was no time for.

    `left`: seconds that may still be spent.
    """
    held = 0

    def step(count: int) -> float:
        nonlocal held
        outputs = np.zeros(count, np.bool_)
        outputs[-1] = True
        began = time.monotonic()
        runner.step(
            positions=np.arange(held, held + count, dtype=np.int32),
            sequences=np.zeros(count, np.int32),
            tokens=np.zeros(count, np.int32),
            outputs=outputs,
        )
        held += count
        return time.monotonic() - began

    step(1)  # The first step allocates, and touches every weight for the first time.
    decodes = [step(1)]
    while len(decodes) < DECODES and left() > SECONDS / 2:
        decodes.append(step(1))
    # A decode is a prompt of one token: what is slower than that was disturbed.
    prefill, measured = min(decodes), False
    for count in PREFILLS:
        if prefill * count > left():
            break
        prefill, measured = min(prefill, step(count) / count), True
    return min(decodes), prefill if measured else 0.0


def main() -> None:
    """Read the job, write the result; llama.cpp's own words go to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    if sys.platform == "win32":
        psutil.Process().nice(psutil.IDLE_PRIORITY_CLASS)
    else:
        os.nice(19)
    os.write(out, msgspec.json.encode(measure(job_decoder.decode(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
