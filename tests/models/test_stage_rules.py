"""What the table refuses, in which words, and what a window of layers looks like."""

from pathlib import Path

import pytest

from meshllm_core.errors import CutRefused
from meshllm_core.models.architectures import KNOWN
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_table import RULES
from tests.stages.chain import rules_of
from tests.support.tiny_architectures import write_tiny
from tests.support.tiny_bert import write_tiny_bert


def _rules(folder: Path, architecture: str, variant: str = "") -> StageRules:
    return rules_of(write_tiny(folder / "model.gguf", architecture, variant))


def test_the_table_holds_only_architectures_that_llama_cpp_knows() -> None:
    assert len(RULES) == 119
    assert set(RULES) <= KNOWN


def test_an_architecture_outside_the_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CutRefused, match=r"tiny\.gguf \(bert\).*has been proved"):
        rules_of(write_tiny_bert(tmp_path / "tiny.gguf"))


@pytest.mark.parametrize(
    ("architecture", "cut", "near"), [("glm-dsa", 2, 1), ("glm-dsa", 4, 3), ("hy_v4", 5, 4)]
)
def test_a_refusal_names_the_nearest_cut(tmp_path: Path, architecture: str, cut: int, near: int) -> None:
    rules = _rules(tmp_path, architecture)
    with pytest.raises(CutRefused, match=f"at layer {cut}.*nearest cut that is exact is {near}"):
        rules.shape(0, cut)
    with pytest.raises(CutRefused):
        plan_stage_file(rules, cut, rules.layers)


def test_layers_that_share_a_cache_stay_with_their_donors(tmp_path: Path) -> None:
    rules = _rules(tmp_path, "gemma4", "ple-shared")
    assert rules.legal_cuts == (1, 2)
    assert "use the KV cache" in rules.forbidden_cuts[3]
    assert rules.sideband


@pytest.mark.parametrize(("start", "end"), [(3, 3), (-1, 2), (0, 9), (5, 4)])
def test_a_stage_outside_the_model_is_refused(tmp_path: Path, start: int, end: int) -> None:
    with pytest.raises(CutRefused, match="has 8 layers"):
        _rules(tmp_path, "llama").shape(start, end)


def test_a_window_grows_until_it_holds_what_llama_cpp_needs(tmp_path: Path) -> None:
    rules = _rules(tmp_path, "gemma3")
    # Layer 5 alone slides nowhere: it gets the neighbour behind it.
    alone = rules.shape(5, 6)
    assert (alone.window_start, alone.window_end, alone.mechanism) == (5, 7, "pad")
    last = rules.shape(11, 12)
    assert (last.window_start, last.hook, last.leaves) == (10, "l_out-0", "")
    assert rules.shape(6, 9).mechanism == "file"


def test_recurrent_models_say_that_they_cannot_go_back(tmp_path: Path) -> None:
    shape = _rules(tmp_path, "qwen35").shape(0, 4)
    assert not shape.rollback
    assert shape.snapshots
    assert not _rules(tmp_path, "mamba").shape(0, 4).snapshots
