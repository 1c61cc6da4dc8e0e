"""One stage as the chain will use it: mixed batches, going back, refusals, memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshllm_core.engine.llama.stage import StageRunner
from meshllm_core.errors import EngineError, InvalidRequest, ModelFileInvalid
from meshllm_core.models.stage_table import RULES, Rule
from tests.stages.chain import Chain, rules_of, spec, write_stages
from tests.stages.examine import Subject
from tests.support.tiny_architectures import write_tiny

TOKENS = np.random.default_rng(3).integers(0, 64, 40).tolist()


def _chain(folder: Path, architecture: str, cut: int, *, lanes: int = 1, snapshots: int = 0) -> Chain:
    path = write_tiny(folder / "model.gguf", architecture)
    return Chain(write_stages(path, [cut], folder), lanes=lanes, snapshots=snapshots)


@pytest.mark.parametrize("architecture", ["llama", "mamba2", "lfm2", "gemma3n"])
def test_several_sequences_in_one_step_come_back_in_order(tmp_path: Path, architecture: str) -> None:
    chain = _chain(tmp_path, architecture, 4, lanes=3)
    expected = np.concatenate([chain.feed(TOKENS[10 * s : 10 * s + 6], 0, s) for s in range(3)])
    singles = np.concatenate([chain.feed([TOKENS[30 + s]], 6, s) for s in range(3)])
    for sequence in range(3):
        for runner in chain.runners:
            runner.trim(sequence, 0)
    mixed = [(s, p) for p in range(6) for s in (2, 0, 1)]
    found = chain.mixed([TOKENS[10 * s + p] for s, p in mixed], [p for _, p in mixed], [s for s, _ in mixed])
    at = [6 * s + p for s, p in mixed]
    # Another batch shape sums in another order: equal in sense, not in the last bit.
    np.testing.assert_allclose(found, expected[at], atol=2e-3)
    together = chain.mixed([TOKENS[30 + s] for s in (2, 0, 1)], [6, 6, 6], [2, 0, 1])
    np.testing.assert_allclose(together, singles[[2, 0, 1]], atol=2e-3)
    chain.close()


def test_the_last_stage_gives_only_the_logits_that_were_asked_for(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.gguf", "llama")
    whole = StageRunner(spec(path))
    ids, at = np.array(TOKENS[:8], dtype=np.int32), np.arange(8, dtype=np.int32)
    every = whole.step(tokens=ids, positions=at, sequences=np.zeros(8, dtype=np.int32))
    wanted = at == 7
    whole.trim(0, 0)
    one = whole.step(tokens=ids, positions=at, sequences=np.zeros(8, dtype=np.int32), outputs=wanted)
    whole.close()
    assert one.shape == (1, 64)
    np.testing.assert_allclose(one[0], every[7], atol=1e-4)


def test_a_recurrent_stage_goes_back_within_one_batch_and_no_further(tmp_path: Path) -> None:
    chain = _chain(tmp_path, "qwen35", 4, snapshots=8)
    chain.feed(TOKENS[:24], 0)
    plain = chain.feed(TOKENS[24:29], 24)
    again = chain.feed(TOKENS[26:29], 26)
    np.testing.assert_allclose(again, plain[2:], atol=2e-3)
    # Decoded one by one, llama.cpp would say yes and be wrong.
    chain.feed([TOKENS[29]], 29)
    chain.feed([TOKENS[30]], 30)
    with pytest.raises(EngineError, match="cannot go back from position 31 to 29"):
        chain.feed([TOKENS[29]], 29)
    chain.close()


def test_a_window_that_has_forgotten_too_much_is_not_trusted(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.gguf", "gemma3")
    runner = StageRunner(spec(path, context=2048, batch=256))
    ids = np.random.default_rng(5).integers(0, 64, 1024).astype(np.int32)
    for start in range(0, 1024, 256):
        at = np.arange(start, start + 256, dtype=np.int32)
        runner.step(tokens=ids[at], positions=at, sequences=np.zeros(256, dtype=np.int32))
    with pytest.raises(EngineError, match="from its beginning"):
        runner.trim(0, 100)
    assert runner.held(0) == 0
    runner.close()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rows": None}, "no hidden rows"),
        ({"rows": np.zeros((2, 63), dtype=np.float32)}, "rows of shape"),
        ({"sequences": np.array([0, 9], dtype=np.int32)}, "a sequence that is none of the 1"),
        ({"sequences": np.zeros(3, dtype=np.int32)}, "not one sequence"),
        ({"positions": np.array([1, 2], dtype=np.int32)}, "holds 0 positions and was sent 1"),
        ({"positions": np.array([0, 2], dtype=np.int32)}, "was sent 0 to 2"),
        ({"positions": np.zeros(0, dtype=np.int32)}, "0 positions"),
        ({"positions": np.zeros(65, dtype=np.int32)}, "65 positions"),
    ],
)
def test_a_step_that_cannot_be_is_refused_in_words(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    chain = _chain(tmp_path, "llama", 4)
    good: dict[str, Any] = {
        "positions": np.arange(2, dtype=np.int32),
        "sequences": np.zeros(2, dtype=np.int32),
        "rows": np.zeros((2, 64), dtype=np.float32),
    }
    with pytest.raises(EngineError, match=words):
        chain.runners[1].step(**(good | changed))
    assert chain.runners[1].step(**good).shape == (2, 64)
    chain.close()


def test_a_full_cache_is_told(tmp_path: Path) -> None:
    runner = StageRunner(spec(write_tiny(tmp_path / "model.gguf", "llama"), context=256))
    zeros = np.zeros(64, dtype=np.int32)
    for start in range(0, 256, 64):
        at = np.arange(start, start + 64, dtype=np.int32)
        runner.step(tokens=zeros, positions=at, sequences=zeros)
    with pytest.raises(EngineError, match="KV cache is full"):
        runner.step(tokens=zeros[:1], positions=np.array([256], dtype=np.int32), sequences=zeros[:1])
    runner.close()


def test_a_stage_of_another_version_is_refused(tmp_path: Path) -> None:
    path = write_stages(write_tiny(tmp_path / "model.gguf", "llama"), [4], tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b'"window_start"', b'"window_statr"'))
    with pytest.raises(ModelFileInvalid, match="not a stage of this version"):
        StageRunner(spec(path))


@pytest.mark.parametrize(
    ("true", "false"),
    [
        (b'"end":4', b'"end":9'),
        (b'"start":0', b'"start":7'),
        (b'"window_start":0', b'"window_start":5'),
        (b'"layers":8', b'"layers":3'),
        (b'"width":64', b'"width":65'),
        (b'"end":4', b'"end":0'),
    ],
)
def test_a_stage_whose_numbers_cannot_be_is_refused(tmp_path: Path, true: bytes, false: bytes) -> None:
    path = write_tiny(tmp_path / "model.gguf", "llama")
    first, _ = write_stages(path, [4], tmp_path)
    data = first.read_bytes()
    assert true in data
    first.write_bytes(data.replace(true, false, 1))
    with pytest.raises(ModelFileInvalid, match="its layers or its width cannot be"):
        StageRunner(spec(first))


def test_rows_for_the_first_stage_are_refused(tmp_path: Path) -> None:
    chain = _chain(tmp_path, "llama", 4)
    zero, first = np.zeros(1, dtype=np.int32), chain.runners[0]
    with pytest.raises(EngineError, match="begins with tokens"):
        first.step(positions=zero, sequences=zero, rows=np.zeros((1, 64), dtype=np.float32))
    with pytest.raises(InvalidRequest, match="vocabulary of 64"):
        first.step(positions=zero, sequences=zero, tokens=zero + 64)
    chain.close()


def test_a_first_stage_whose_embedding_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = write_stages(write_tiny(tmp_path / "model.gguf", "llama"), [4], tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileInvalid, match="does not end with its token embedding"):
        StageRunner(spec(path))


@pytest.mark.parametrize(
    ("architecture", "variant", "wrong"),
    [
        ("gemma2", "", Rule()),
        ("minicpm3", "", Rule()),
        ("smollm3", "", Rule()),
        ("gpt2", "", Rule()),
        ("granite", "", Rule()),
        ("bloom", "", Rule()),
        ("step35", "", Rule(leaves="ffn_inp-{layer}")),
        ("gemma", "", Rule(hook="no_such_tensor")),
    ],
)
def test_a_wrong_rule_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, variant: str, wrong: Rule
) -> None:
    subject = Subject(tmp_path, architecture, variant)
    assert subject.cut(3).result == "exact"
    monkeypatch.setitem(RULES, architecture, wrong)
    assert subject.cut(3).result == "wrong"


def test_three_stages_are_exact_too(tmp_path: Path) -> None:
    subject = Subject(tmp_path, "gemma4", "ple")
    assert subject.cut(3, 5).result == "exact"
    assert rules_of(subject.path).shape(3, 5).sideband
