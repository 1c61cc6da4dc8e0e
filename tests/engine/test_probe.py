"""Golden probes of a real model: every stage reproduces its own, and none that is damaged does."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from meshllm_core.engine.chain_spec import ChainSpec
from meshllm_core.engine.probe_process import make_probes
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.engine.refusals import ProbeFailed
from meshllm_core.engine.supervisor import EngineProcess
from meshllm_core.errors import EngineError
from meshllm_core.models.gguf_file import read_head
from meshllm_core.models.package_probes import GoldenProbes, encode_probes
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from tests.models.packages import write_model
from tests.support.default_model import require_default_model

pytestmark = pytest.mark.model
LAYERS = 30


@pytest.fixture(scope="module")
def rules() -> StageRules:
    return StageRules(open_source(local_files(require_default_model())))


@pytest.fixture(scope="module")
def probes(rules: StageRules, tmp_path_factory: pytest.TempPathFactory) -> GoldenProbes:
    log = tmp_path_factory.mktemp("probes") / "log"
    return make_probes(rules, (require_default_model(),), log, threads=1)


async def prove(folder: Path, rules: StageRules, file: Path, probes: GoldenProbes, kv_type: str) -> list[str]:
    """Loads a stage with its probe; what was told meanwhile. Raises ProbeFailed."""
    found = folder / "probes"
    found.write_bytes(encode_probes(probes, "ab" * 32, LAYERS))
    chain = ChainSpec(
        role="driver" if file.name.startswith("last") else "stage",
        run=7,
        width=rules.source.width,
        rows=128,
        sequences=1,
        positions=512,
        dtype="f32",
        layers=LAYERS,
    )
    spec = LoadSpec(
        files=(str(file),),
        context=512,
        lanes=1,
        prefix_slots=0,
        queue_limit=0,
        batch=128,
        threads=1,
        device="cpu",
        flash_attention="on",
        chain=chain,
        probes=str(found),
    )
    said: list[str] = []
    engine = EngineProcess("stage", folder / "log", lambda _: None)
    engine.on_probing = lambda: said.append("probing")
    await engine.start(msgspec.structs.replace(spec, kv_type=kv_type), lambda _: None)
    await engine.close()
    return said


def stage(folder: Path, rules: StageRules, start: int, end: int) -> Path:
    name = "last" if end == LAYERS else "stage"
    return write_stage_file(plan_stage_file(rules, start, end), folder / f"{name}-{start}-{end}.gguf")


def test_there_are_rows_behind_every_layer(probes: GoldenProbes) -> None:
    assert sorted(probes.boundaries) == list(range(1, LAYERS + 1))
    assert 8 < len(probes.tokens) <= 16 and "llama.cpp" in probes.made_with
    assert all(rows.shape == (len(probes.tokens), 576) for rows in probes.boundaries.values())
    assert not np.array_equal(probes.boundaries[3], probes.boundaries[4])


@pytest.mark.parametrize(("start", "end"), [(0, 10), (7, 20), (16, LAYERS)])
async def test_stages_reproduce_their_probes(
    tmp_path: Path, rules: StageRules, probes: GoldenProbes, start: int, end: int
) -> None:
    """With another way of attention, and with the roughest KV cache: rounding is no failure."""
    file = stage(tmp_path, rules, start, end)
    for kv_type in ("f16", "q4_0"):
        assert await prove(tmp_path, rules, file, probes, kv_type) == ["probing"]


def _zero(file: Path) -> None:
    head = read_head(file)
    tensor = next(t for t in head.tensors if t.name == "blk.2.ffn_down.weight")
    with file.open("r+b") as stream:
        stream.seek(head.data_offset + tensor.offset)
        stream.write(bytes(tensor.nbytes))


@pytest.mark.parametrize(("start", "end"), [(0, 10), (7, 20), (16, LAYERS)])
@pytest.mark.parametrize("harm", [_zero, None])
async def test_a_stage_that_computes_something_else_is_found(
    tmp_path: Path,
    rules: StageRules,
    probes: GoldenProbes,
    harm: Callable[[Path], None] | None,
    start: int,
    end: int,
) -> None:
    file = stage(tmp_path, rules, start, end)
    if harm is not None:
        harm(file)
    else:
        # Rows of the layer before: as if the stage had the wrong layers.
        moved = {layer + 1: rows for layer, rows in probes.boundaries.items() if layer < LAYERS}
        probes = GoldenProbes(probes.tokens, moved | {1: probes.boundaries[1]}, "")
    with pytest.raises(ProbeFailed, match=rf"layers {start} to {end - 1} do not compute what the model does"):
        await prove(tmp_path, rules, file, probes, "f16")


async def test_a_probe_of_other_boundaries_proves_nothing(
    tmp_path: Path, rules: StageRules, probes: GoldenProbes
) -> None:
    few = GoldenProbes(probes.tokens, {3: probes.boundaries[3]}, "")
    with pytest.raises(ProbeFailed, match="no golden probe of layers 0 to 9"):
        await prove(tmp_path, rules, stage(tmp_path, rules, 0, 10), few, "f16")


def test_a_model_without_a_tokenizer_has_no_probes(tmp_path: Path) -> None:
    model = write_model(tmp_path / "tiny.gguf")
    with pytest.raises(EngineError):
        make_probes(StageRules(open_source(local_files(model))), (model,), tmp_path / "log", threads=1)
