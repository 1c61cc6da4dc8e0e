"""Real models, quantized as people load them: divided, they say what they say undivided."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from meshllm_core.engine.llama.stage import StageRunner
from tests.stages.chain import Chain, rules_of, spec, write_stages
from tests.support.default_model import require_default_model

GEMMA = os.environ.get("TEST_GEMMA_MODEL", "")
"""A Gemma 3 270M file; its tests are left out without it."""
PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea,",
)
LENGTH = 12

pytestmark = pytest.mark.model


def _greedy(chain: Chain, prompt: tuple[int, ...]) -> tuple[list[int], np.ndarray]:
    """LENGTH tokens, and the logits they were chosen from."""
    logits = [chain.feed(prompt, 0)[-1]]
    tokens = [int(logits[0].argmax())]
    while len(tokens) < LENGTH:
        logits.append(chain.feed([tokens[-1]], len(prompt) + len(tokens) - 1)[0])
        tokens.append(int(logits[-1].argmax()))
    return tokens, np.array(logits)


def _compare(path: Path, cuts: tuple[int, ...], folder: Path) -> None:
    whole, divided = Chain([path]), Chain(write_stages(path, cuts, folder))
    for text in PROMPTS:
        prompt = tuple(whole.runners[0].model.tokenize(text, add_special=True, parse_special=False))
        expected, logits = _greedy(whole, prompt)
        found, own = _greedy(divided, prompt)
        assert found == expected
        np.testing.assert_array_equal(own, logits)
    whole.close()
    divided.close()


@pytest.mark.parametrize("cuts", [(15,), (10, 20)], ids=str)
def test_smollm2(cuts: tuple[int, ...], tmp_path: Path) -> None:
    _compare(require_default_model(), cuts, tmp_path)


@pytest.mark.skipif(not GEMMA, reason="TEST_GEMMA_MODEL names no file")
@pytest.mark.parametrize("cut", [6, 8, 12])
def test_gemma(cut: int, tmp_path: Path) -> None:
    _compare(Path(GEMMA), (cut,), tmp_path)


def mapped(process: str = "self") -> dict[str, int]:
    """Bytes resident of each file that a process maps."""
    found: dict[str, int] = {}
    name = ""
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            name = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:":
            found[name] = found.get(name, 0) + int(words[1]) * 1024
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stage_maps_its_own_file_only(tmp_path: Path) -> None:
    source = require_default_model()
    files = write_stages(source, (8, 15), tmp_path)
    stage = StageRunner(spec(files[1]))
    at = np.arange(64, dtype=np.int32)
    stage.step(positions=at, sequences=at * 0, rows=np.ones((64, stage.shape.width), dtype=np.float32))
    resident = mapped()
    stage.close()
    models = {name for name in resident if name.endswith(".gguf")}
    assert models <= {str(files[1])}
    assert files[1].stat().st_size < rules_of(source).source.files[0].size / 4
