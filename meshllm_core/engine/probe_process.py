"""Golden probes are made in a process of their own, for llama.cpp may abort: its start, and what it is told.

The rows go into a file, because there may be many.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from meshllm_core.engine.exits import classify
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.supervisor import ENVIRONMENT
from meshllm_core.errors import EngineError
from meshllm_core.models.package_probes import GoldenProbes
from meshllm_core.models.stage_rules import StageRules, StageShape

CONTEXT = 256


class ProbeJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to take from where."""

    whole: LoadSpec
    shape: StageShape
    """Of the whole model: one stage from the first layer to the last."""
    names: tuple[str, ...]
    """The tensors with the rows behind each layer, in order."""
    rows: str
    """A file that is written: rows [layers, tokens, width × streams], f32, as numpy stores them."""


class Made(msgspec.Struct, frozen=True, kw_only=True, tag="made"):
    """The rows are in the file."""

    tokens: tuple[int, ...]
    made_with: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """There are none."""

    message: str


_answers = msgspec.json.Decoder(Made | Failed)


def make_probes(rules: StageRules, files: tuple[Path, ...], log: Path, *, threads: int) -> GoldenProbes:
    """The rows at every boundary of the model in `files`, which needs the memory to be loaded whole.

    llama.cpp's own words go to `log`. Blocks; raises EngineError.
    """
    layers = rules.layers
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        job = ProbeJob(
            whole=LoadSpec(
                files=tuple(str(file) for file in files),
                context=CONTEXT,
                lanes=1,
                prefix_slots=0,
                queue_limit=0,
                batch=CONTEXT,
                threads=threads,
            ),
            shape=rules.shape(0, layers),
            names=tuple(rules.boundary(layer) for layer in range(1, layers + 1)),
            rows=str(rows),
        )
        made = _run(job, log)
        found = np.load(rows, allow_pickle=False)
    boundaries = {layer: found[layer - 1] for layer in range(1, layers + 1)}
    return GoldenProbes(made.tokens, boundaries, made.made_with)


def _run(job: ProbeJob, log: Path) -> Made:
    with log.open("ab") as output:
        done = subprocess.run(
            [sys.executable, "-m", "meshllm_core.engine.probe_maker"],
            input=msgspec.json.encode(job),
            stdout=subprocess.PIPE,
            stderr=output,
            env={**ENVIRONMENT, **os.environ},
            check=False,
        )
    if done.returncode:
        raise classify("the golden probes", done.returncode, (), killed_for_memory=False)
    try:
        answer = _answers.decode(done.stdout)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EngineError(f"The process that makes golden probes cannot be understood: {error}.") from error
    if isinstance(answer, Failed):
        raise EngineError(answer.message)
    return answer
