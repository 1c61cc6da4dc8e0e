"""`meshllm certify`: wrong input refused at once; a short real measurement, its table, JSON and records."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.certify import prompts
from meshllm_core.cli import certify_text
from meshllm_core.engine import certify_model
from meshllm_core.errors import ExitCode
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.embedded import embedded_model
from meshllm_core.paths import Paths
from tests.cli.conftest import Result

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--codecs", "q9"), ExitCode.USAGE, "q9"),
        (("--codecs", ""), ExitCode.USAGE, "wire dtype"),
        (("--cuts", "ten"), ExitCode.USAGE, "list of layers"),
        (("--cuts", "20,10"), ExitCode.USAGE, "rising order"),
        (("--cuts", "10,10"), ExitCode.USAGE, "rising order"),
        (("--device", "nope"), ExitCode.USAGE, "no device named nope"),
        (("--cuts", "0"), ExitCode.MODEL, "30 layers"),
        (("--cuts", "30"), ExitCode.MODEL, "30 layers"),
        (("--cuts", "99999"), ExitCode.MODEL, "30 layers"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_read(
    meshllm: Run, paths: Paths, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = meshllm("certify", str(embedded_model()), *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not paths.certificates.exists() and "hashing" not in done.err


def test_a_model_that_is_not_here_is_named(meshllm: Run, tmp_path: Path) -> None:
    done = meshllm("certify", str(tmp_path / "none.gguf"))
    assert (done.code, done.out) == (ExitCode.MODEL, "")
    assert "none.gguf" in done.err


@pytest.mark.model
def test_a_short_measurement(meshllm: Run, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "PROMPTS", ("The sea is",))
    monkeypatch.setattr(certify_model, "ANSWER_TOKENS", 16)
    options = ("--codecs", "f16,q8x", "--cuts", "15", "--device", "cpu", "--threads", "1")
    done = meshllm("certify", str(embedded_model()), *options, "--json")
    assert done.code == 0, done.err
    (split,) = done.document["splits"]
    assert (done.document["backend"], split["cuts"], split["positions"]) == ("cpu", [15], 16)
    assert split["floor"]["mean_kl"] > 0
    assert [(one["codec"], one["bytes_per_row"]) for one in split["codecs"]] == [("f16", 1152), ("q8x", 636)]
    # Sixteen positions prove nothing, and the gate says so.
    assert {(one["verdict"], one["allowed"]) for one in split["codecs"]} == {("untested", False)}
    assert "answering: 0 of 16 positions" in done.err
    records = CertificateStore(paths.certificates).load()
    assert {one.certificate.artifact.hex() for one in records} == {done.document["artifact"]}
    assert len(records) == 2
    assert not list(paths.cache.glob(".certify.*"))
    lines = certify_text.show(done.document).splitlines()
    assert "cut at 15: 16 positions" in lines
    assert [line.split()[0] for line in lines[-3:]] == ["noise", "f16", "q8x"]
