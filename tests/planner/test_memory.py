"""Memory of stages: the matrix against the arithmetic of a loaded model, and against real stage files."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from meshllm_core.cli.plan_input import read_model
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.facts import LayerCache
from meshllm_core.models.fit import EngineSettings, compute_bytes, fit_model, kv_bytes
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.paths import default_paths
from meshllm_core.planner.memory import MemoryModel, ranges_between
from meshllm_core.planner.model import Readers, SplitModel
from meshllm_core.planner.real_model import PlannedModel
from tests.models.conftest import write_gguf
from tests.planner.machines import model


def mixed(layers: int = 9) -> SplitModel:
    """Layers that differ in everything a stage's memory depends on."""
    plain = model(layers)
    caches = tuple(
        LayerCache(
            key_width=0 if layer % 4 == 3 else 512,
            value_width=0 if layer % 4 == 3 else 256,
            windowed=layer % 3 != 2,
            state_bytes=100_000 * (layer % 4 == 3) * (1 + layer),
        )
        for layer in range(layers)
    )
    facts = replace(
        plain.facts, caches=caches, sliding_window=1024, recurrent=True, heads=tuple(range(8, 8 + layers))
    )
    sizes = tuple(1_000_003 * (1 + layer) for layer in range(layers))
    return replace(plain, facts=facts, layer_bytes=sizes, shared_bytes=12_345)


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize(("context", "lanes"), [(512, 1), (4096, 4)])
def test_the_matrix_is_the_arithmetic_of_every_single_stage(kv_type: str, context: int, lanes: int) -> None:
    big = mixed()
    memory = MemoryModel(big, EngineSettings(kv_type=kv_type), idle=3)
    demand = memory.demand(context, lanes)
    for first, end in combinations(range(10), 2):
        assert demand[first, end] == memory.stage(first, end, context, lanes).total
    assert not demand[5, 5]
    assert not demand[6, 2]


def test_the_whole_model_needs_what_loading_it_needs() -> None:
    big = mixed()
    found = MemoryModel(big, EngineSettings(), idle=4).stage(0, 9, 2048, 4)
    engine = EngineSettings(batch=512, outputs=8, sequences=8)
    fit = fit_model(big.facts, 2048, lanes=4, memory_available=1 << 40, settings=engine)
    assert (found.weights, found.kv, found.compute, found.boundary) == (
        fit.tensor_bytes,
        fit.kv_bytes,
        fit.compute_bytes,
        0,
    )


def test_a_stage_needs_what_its_own_file_would() -> None:
    big = mixed()
    stage = MemoryModel(big, EngineSettings()).stage(2, 5, 1024, 2)
    facts = big.stage_facts(2, 5)
    settings = EngineSettings(batch=512, outputs=512, sequences=2)
    assert facts.layers == len(facts.caches) == len(facts.heads) == 3
    assert stage.weights == sum(big.layer_bytes[2:5]) + 12_345 + big.stub_bytes
    assert stage.kv == kv_bytes(facts, 1024, 2, settings)
    assert stage.compute == compute_bytes(facts, 1024, 2, settings)
    assert stage.boundary == 2 * 512 * 4096 * 4


def test_ranges_that_may_not_be_have_no_place() -> None:
    memory = MemoryModel(model(6), EngineSettings(), ranges_between({2}, 6))
    legal = [(first, end) for first, end in combinations(range(7), 2) if memory.legal[first, end]]
    assert legal == [(0, 2), (0, 6), (2, 6)]
    assert not memory.demand(512, 1)[0, 3]


def test_zeros_around_a_stage_weigh_what_their_layers_do() -> None:
    padded = MemoryModel(mixed(), EngineSettings(), lambda first, end: (first - first % 2, min(9, end + 1)))
    for first, end in ((3, 4), (0, 5), (4, 9)):
        assert padded.demand(512, 1)[first, end] == padded.stage(first, end, 512, 1).total
    bare = MemoryModel(mixed(), EngineSettings())
    more = padded.stage(3, 4, 512, 1).weights - bare.stage(3, 4, 512, 1).weights
    assert more == 1_000_003 * (3 + 5)


@pytest.mark.parametrize("readers", ["none", "first", "every"])
def test_a_stage_that_reads_tokens_pays_for_the_vocabulary(readers: Readers) -> None:
    memory = MemoryModel(replace(mixed(), readers=readers), EngineSettings())
    demand = memory.demand(512, 2)
    for first, end in combinations(range(10), 2):
        assert demand[first, end] == memory.stage(first, end, 512, 2).total
    head = 512 * 128_000 * 4
    assert (memory.stage(0, 3, 512, 2).compute > head) == (readers != "none")
    assert (memory.stage(3, 5, 512, 2).compute > head) == (readers == "every")


def real(name: str) -> tuple[PlannedModel, StageRules]:
    """A real model's own figures, and the rules by which its stage files are made."""
    path = embedded_model() if name == "default" else Path(name)
    return read_model(name, default_paths()), StageRules(open_source(local_files(path)))


def test_a_real_models_stages_weigh_what_their_files_hold() -> None:
    planned, rules = real("default")
    big = planned.model
    assert (big.layers, big.readers, planned.indivisible) == (30, "none", "")
    for first, end in ((0, 1), (0, 15), (7, 22), (15, 30), (29, 30)):
        file = sum(tensor.nbytes for tensor in plan_stage_file(rules, first, end).tensors)
        assert big.stage_facts(first, end).tensor_bytes == pytest.approx(file, rel=0.001, abs=8192)
    assert big.stage_facts(0, 30).tensor_bytes == big.facts.tensor_bytes
    assert len(big.fingerprint) == 64


@pytest.mark.parametrize(
    ("architecture", "more", "readers"),
    [("llama", {}, "none"), ("glm4", {}, "first"), ("talkie", {}, "every")],
)
def test_other_architectures_weigh_what_their_files_hold(
    tmp_path: Path, architecture: str, more: dict[str, object], readers: Readers
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", architecture=architecture, layers=4, **more)
    planned, rules = real(str(file))
    assert planned.model.readers == readers
    for first, end in combinations(range(5), 2):
        held = sum(tensor.nbytes for tensor in plan_stage_file(rules, first, end).tensors)
        assert planned.model.stage_facts(first, end).tensor_bytes == pytest.approx(held, abs=8192)
