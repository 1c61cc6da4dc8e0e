"""The process that measures codecs, on the real model; and what is said when it cannot."""

from pathlib import Path

import pytest

from meshllm_core.certify.verdict import Verdict, judge
from meshllm_core.engine.certify_process import run_certify
from meshllm_core.engine.certify_protocol import CertifyJob, Doing
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.errors import EngineError, EngineExited
from meshllm_core.models.embedded import embedded_model
from tests.stages.chain import write_stages

pytestmark = pytest.mark.model


def spec(file: Path) -> LoadSpec:
    return LoadSpec(
        files=(str(file),), context=128, lanes=1, prefix_slots=0, queue_limit=0, batch=128, threads=1,
        device="cpu",
    )  # fmt: skip


def job(whole: Path, *chains: list[Path], prompts: tuple[str, ...] = ("The sea is",)) -> CertifyJob:
    return CertifyJob(
        whole=spec(whole), chains=tuple(tuple(spec(file) for file in chain) for chain in chains),
        dtypes=("f32", "q8"), seeds=(1, 2, 3), prompts=prompts, answer_tokens=6,
    )  # fmt: skip


def test_two_and_three_stages_of_the_real_model(tmp_path: Path) -> None:
    whole = embedded_model()
    chains = [write_stages(whole, cuts, tmp_path) for cuts in ((15,), (10, 20))]
    said: list[Doing] = []
    prompts = ("The sea is", "def add(a, b):\n")
    measured, over = run_certify(job(whole, *chains, prompts=prompts), tmp_path / "log", said.append)
    assert (over.backend, sorted(measured)) == ("cpu", [0, 1])
    for one in measured.values():
        exact, rows = one.figures["f32"], one.figures["q8"]
        assert (exact.positions, exact.agreed, exact.mean_kl, exact.floor_seeds) == (12, 12, 0.0, 3)
        assert rows.mean_kl > exact.floor_mean_kl > 0
        assert judge(rows) is Verdict.UNTESTED
        assert one.widened == {"f32": 0, "q8": 0}
    assert [(one.phase, one.done) for one in said] == [
        ("answering", 0), ("answering", 1), *[("measuring", 0), ("measuring", 1)] * 2,
    ]  # fmt: skip


def test_stages_that_are_not_the_model_are_noticed(tmp_path: Path) -> None:
    whole = embedded_model()
    first, _ = write_stages(whole, (15,), tmp_path)
    _, second = write_stages(whole, (16,), tmp_path)
    with pytest.raises(EngineError, match="even at f32"):
        run_certify(job(whole, [first, second]), tmp_path / "log", lambda doing: None)


def test_a_file_that_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(EngineError, match="broken"):
        run_certify(job(file), tmp_path / "log", lambda doing: None)


def test_a_prompt_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be measured"):
        run_certify(job(embedded_model(), prompts=("word " * 200,)), tmp_path / "log", lambda doing: None)


def test_a_process_that_dies_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python itself refuses to start: the child is gone before it could say a line.
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    with pytest.raises(EngineExited) as caught:
        run_certify(job(embedded_model()), tmp_path / "log", lambda doing: None)
    assert caught.value.log_tail
    assert "log" in caught.value.hint
