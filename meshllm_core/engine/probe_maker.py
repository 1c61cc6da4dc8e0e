"""Makes golden probes: one pass of a fixed prompt through the undivided model.

`python -m meshllm_core.engine.probe_maker` reads a job on stdin and answers with one line; see probe_process.
"""

import os
import sys

import msgspec
import numpy as np

from meshllm_core.engine.llama.library import api, version
from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.llama.stage_tap import Gather
from meshllm_core.engine.probe_process import Failed, Made, ProbeJob
from meshllm_core.errors import EngineError, MeshError
from meshllm_core.models.stage_rules import StageShape

PROMPT = "The capital of France is Paris. Water boils at one hundred degrees."
TOKENS = 16
"""Of the prompt at most: every boundary costs a row for each."""


def _made(job: ProbeJob) -> Made:
    taps: list[Gather] = []

    def tap(_: StageShape) -> Gather:
        taps.append(Gather(job.shape, job.names))
        return taps[0]

    runner = StageRunner(job.whole, tap=tap)
    found = runner.model.tokenize(PROMPT, add_special=True, parse_special=False)[:TOKENS]
    tokens = np.asarray(found, np.int32)
    count = len(tokens)
    if not count:
        raise EngineError("The model's tokenizer makes nothing of a text: it cannot be probed.")
    runner.step(
        positions=np.arange(count, dtype=np.int32), sequences=np.zeros(count, np.int32), tokens=tokens
    )
    np.save(job.rows, np.stack(taps[0].rows), allow_pickle=False)
    runner.close()
    return Made(tokens=tuple(tokens.tolist()), made_with=f"llama.cpp {version()}, {job.whole.device}")


def main() -> None:
    """Does one job."""
    # llama.cpp writes to stdout now and then; what is read there must be ours alone.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        api.llama_backend_init()
        answer: Made | Failed
        try:
            answer = _made(msgspec.json.decode(sys.stdin.buffer.read(), type=ProbeJob))
        except MeshError as error:
            answer = Failed(message=error.message)
        out.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
