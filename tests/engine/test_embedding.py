"""An embedding model in the real engine."""

import math
from pathlib import Path

import pytest

from meshllm_core.errors import ContextLengthExceeded, InvalidRequest, MeshError
from tests.support.engines import run, running_engine
from tests.support.tiny_bert import CONTEXT, WIDTH, write_tiny_bert

pytestmark = pytest.mark.model


async def test_embeddings_are_unit_vectors_that_depend_on_the_text(tmp_path: Path) -> None:
    path = write_tiny_bert(tmp_path / "bert.gguf")
    async with running_engine(tmp_path, files=(str(path),), context=CONTEXT) as engine:
        assert engine.facts.embeddings
        assert not engine.facts.generates
        assert engine.facts.width == WIDTH
        (cat, count), (dog, _), (same, _) = await engine.embed(["the cat sat", "a dog ran on", "the cat sat"])
        assert count == 5
        assert len(cat) == WIDTH
        assert math.isclose(sum(value * value for value in cat), 1.0, rel_tol=1e-5)
        assert cat == same
        assert cat != dog
        alone = await engine.embed(["the cat sat"])
        assert alone[0][0] == pytest.approx(cat, abs=1e-5)


async def test_inputs_out_of_bounds_are_refused_and_the_next_is_served(tmp_path: Path) -> None:
    path = write_tiny_bert(tmp_path / "bert.gguf")
    # The context asked for is larger than the table of positions.
    async with running_engine(tmp_path, files=(str(path),), context=CONTEXT * 4) as engine:
        assert engine.facts.context == CONTEXT
        assert len(await engine.embed(["cat " * (CONTEXT - 2)])) == 1
        with pytest.raises(ContextLengthExceeded):
            await engine.embed(["cat " * (CONTEXT - 1)])
        with pytest.raises(InvalidRequest):
            await engine.embed([(1, 9999)])
        with pytest.raises(InvalidRequest):
            await engine.embed([()])
        with pytest.raises(MeshError):
            await run(engine, "the cat")
        assert len(await engine.embed(["the cat"])) == 1
