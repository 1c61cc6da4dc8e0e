"""The support table is what a run of this llama.cpp gave, and a sample of it still comes out."""

import random

import pytest

from meshllm_core.models.architectures import BINDING
from meshllm_core.models.stage_support import support_table
from meshllm_core.models.stage_table import RULES
from tests.stages.support import record, subjects

SAMPLE = 8
"""Models examined here; `python -m tests.stages.support --all` examines all of them."""


def test_the_table_is_of_this_llama_cpp_and_whole() -> None:
    table = support_table()
    assert table.llama_cpp == BINDING
    examined = {(model.architecture, model.variant) for model in table.models if not model.refusal}
    assert examined == set(subjects())
    assert len({name for name, _ in examined}) >= 60
    assert {model.architecture for model in table.models} == set(RULES)


def test_no_cut_in_the_table_is_wrong() -> None:
    for model in support_table().models:
        assert not [cut for cut in model.cuts if cut.result == "wrong"], model.architecture
        assert model.rollback != "wrong"
        for cut in model.cuts:
            if cut.result == "refused":
                assert model.architecture in cut.words
                assert "nearest cut that is exact is" in cut.words


@pytest.mark.parametrize(("architecture", "variant"), random.Random(BINDING).sample(subjects(), SAMPLE))
def test_a_sample_comes_out_as_the_table_says(architecture: str, variant: str) -> None:
    known = {(model.architecture, model.variant): model for model in support_table().models}
    assert record(architecture, variant) == known[architecture, variant]
