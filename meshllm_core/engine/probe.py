"""A stage that has just loaded proves that it computes what the whole model does: its golden probe.

It is fed the rows at its start, all at once, and what leaves it is compared with the rows at its end.
"""

from pathlib import Path

import msgspec
import numpy as np

from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.engine.llama.stage_tap import Rows, Tap
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.errors import ModelError
from meshllm_core.models.package_probes import ProbeFile, deviation, tolerance
from meshllm_core.models.stage_rules import StageShape, leaves_last
from meshllm_core.models.stage_source import local_files


def prove(runner: StageRunner, file: Path) -> float:
    """How far the stage is from its probe, as `deviation` says. Its KV cache is empty afterwards.

    Raises ProbeFailed: too far, or no such rows.
    """
    shape = runner.shape
    layers = f"layers {shape.start} to {shape.end - 1}"
    try:
        (source,) = local_files(file)
        probes = ProbeFile(source)
        tokens = np.asarray(probes.tokens(), np.int32)
        begin = None if shape.first else probes.rows(shape.start)
        end = probes.rows(shape.end)
    except (ModelError, KeyError) as error:
        raise ProbeFailed(f"There is no golden probe of {layers}: {error}.") from error
    if len(tokens) > runner.capacity:
        raise ProbeFailed(f"The golden probe of {layers} has more than {runner.capacity} tokens.")
    made = _computed(runner, tokens, begin)
    off, most = deviation(made, end, begin), tolerance(runner.model.spec.kv_type)
    if not off <= most:
        raise ProbeFailed(
            f"Its {layers} do not compute what the model does: they are off by {off:.2g} of what they "
            f"change in the golden probe, and at most {most:g} is rounding.",
            hint="Its copy of the layers is damaged, or its device computes wrongly: try device cpu there.",
        )
    return off


def _computed(
    runner: StageRunner, tokens: "np.ndarray[tuple[int], np.dtype[np.int32]]", begin: Rows | None
) -> Rows:
    with_rows = _beside(runner, len(tokens)) if runner.shape.last else runner
    count = len(tokens)
    reads = begin is None or runner.shape.sideband
    try:
        return with_rows.step(
            positions=np.arange(count, dtype=np.int32),
            sequences=np.zeros(count, np.int32),
            tokens=tokens if reads else None,
            rows=begin,
        )
    finally:
        if with_rows is runner:
            runner.trim(0, 0)
        else:
            with_rows.close()


def _beside(runner: StageRunner, count: int) -> StageRunner:
    """A small context over the same weights, from which the rows before the head can be taken: to look at
    its graph would slow the stage's own context down for good."""
    spec: LoadSpec = msgspec.structs.replace(
        runner.model.spec, context=count, lanes=1, prefix_slots=0, batch=count
    )

    def tap(shape: StageShape) -> Tap:
        layers = shape.window_end - shape.window_start
        return Tap(msgspec.structs.replace(shape, leaves=leaves_last(shape.architecture, layers)))

    return StageRunner(spec, model=runner.model, tap=tap)
