"""A model as a chain of stages in this process, and the same model whole, fed the same tokens."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.llama.stage_tap import Rows
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file

PREFILL = 24
DECODE = 8


def spec(path: Path, *, context: int = 256, lanes: int = 1, batch: int = 64) -> LoadSpec:
    """One CPU thread: the same sums in the same order, whatever runs beside."""
    return LoadSpec(
        files=(str(path),),
        context=context,
        lanes=lanes,
        prefix_slots=0,
        queue_limit=0,
        batch=batch,
        threads=1,
        device="cpu",
    )


def rules_of(path: Path) -> StageRules:
    """The rules of a model on this disk."""
    return StageRules(open_source(local_files(path)))


def write_stages(path: Path, cuts: Sequence[int], folder: Path) -> list[Path]:
    """The files of the stages between `cuts`. Raises CutRefused."""
    rules = rules_of(path)
    edges = [0, *cuts, rules.layers]
    return [
        write_stage_file(plan_stage_file(rules, a, b), folder / f"{path.stem}-{a}-{b}.gguf")
        for a, b in pairwise(edges)
    ]


class Chain:
    """Stages that hand their rows to each other."""

    def __init__(self, files: Sequence[Path], *, lanes: int = 1, snapshots: int = 0) -> None:
        self.runners = [StageRunner(spec(file, lanes=lanes), snapshots=snapshots) for file in files]

    def feed(self, tokens: Sequence[int], start: int, sequence: int = 0) -> Rows:
        """Logits [n, vocabulary] of n tokens from position `start` on."""
        positions = np.arange(start, start + len(tokens), dtype=np.int32)
        return self.mixed(tokens, positions.tolist(), [sequence] * len(tokens))

    def mixed(self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int]) -> Rows:
        """Any positions of any sequences as one step."""
        ids, rows = np.array(tokens, dtype=np.int32), None
        for runner in self.runners:
            rows = runner.step(
                positions=np.array(positions, dtype=np.int32),
                sequences=np.array(sequences, dtype=np.int32),
                tokens=ids if runner.shape.first or runner.shape.sideband else None,
                rows=rows,
            )
        assert rows is not None
        return rows

    def run(self, tokens: Sequence[int]) -> Rows:
        """All logits: a prompt of PREFILL tokens in one chunk, the rest one by one."""
        found = [self.feed(tokens[:PREFILL], 0)]
        found += [self.feed([token], at) for at, token in enumerate(tokens) if at >= PREFILL]
        return np.concatenate(found)

    def close(self) -> None:
        """Free everything."""
        for runner in self.runners:
            runner.close()
