"""What a person may write to name a model, and what is said when it is wrong."""

from pathlib import Path

import pytest

from meshllm_core.errors import ModelNotFound
from meshllm_core.models.quants import RemoteFile, best_that_fits, known_quant, models_in, quant_of
from meshllm_core.models.refs import AutoRef, CatalogRef, DefaultRef, FileRef, HubRef, ModelRef, parse_ref
from meshllm_core.models.split import model_stem, parse_split

CATALOG = ("qwen3-8b", "qwen3-4b", "gpt-oss-20b")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("auto", AutoRef()),
        (" Auto ", AutoRef()),
        ("default", DefaultRef()),
        ("qwen3-8b", CatalogRef("qwen3-8b")),
        ("Qwen3-8B", CatalogRef("qwen3-8b")),
        ("model.gguf", FileRef(Path("model.gguf"))),
        ("./some/model", FileRef(Path("some/model"))),
        ("/models/a-00001-of-00002.gguf", FileRef(Path("/models/a-00001-of-00002.gguf"))),
        ("folder/model.GGUF", FileRef(Path("folder/model.GGUF"))),
        ("Qwen/Qwen3-8B-GGUF", HubRef("Qwen/Qwen3-8B-GGUF")),
        ("Qwen/Qwen3-8B-GGUF:q4_k_m", HubRef("Qwen/Qwen3-8B-GGUF", "Q4_K_M")),
        ("Qwen/Qwen3-8B-GGUF:Q8_0@v1.0", HubRef("Qwen/Qwen3-8B-GGUF", "Q8_0", "v1.0")),
        (f"Qwen/Qwen3-8B-GGUF@{COMMIT}", HubRef("Qwen/Qwen3-8B-GGUF", "", COMMIT)),
        ("a/b@refs/pr/3", HubRef("a/b", "", "refs/pr/3")),
        ("unsloth/X-GGUF:UD-Q4_K_XL", HubRef("unsloth/X-GGUF", "Q4_K_XL")),
        ("hf://a/b:F16", HubRef("a/b", "F16")),
        ("hf://a/b/sub/m-Q4_0.gguf", HubRef("a/b", "", "main", "sub/m-Q4_0.gguf")),
        ("hf://a/b@dev/m.gguf", HubRef("a/b", "", "dev", "m.gguf")),
    ],
)
def test_references_are_read(text: str, means: ModelRef) -> None:
    assert parse_ref(text, catalog=CATALOG) == means


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("x" * 5000, "empty or unreadable"),
        ("qwen3-9b", "Did you mean qwen3-8b"),
        ("autoo", "Did you mean auto"),
        ("zzz", "Give a .gguf file"),
        ("a/b:Q4_KM", "Did you mean a/b:Q4_K_M"),
        ("a/b:Q4", "Did you mean a/b:Q4_K_M"),
        ("a/b:", "not the name of a model"),
        ("a/b/c", "not the name of a model"),
        ("hf://a", "not the name of a model"),
        ("hf://a/b/../../c.gguf", "leads out"),
        ("ollama://llama3", "not understood"),
        ("https://example.org/m.gguf", "not understood"),
        ("-a/b", "not the name"),
    ],
)
def test_mistakes_get_a_suggestion(text: str, says: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        parse_ref(text, catalog=CATALOG)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_hub_reference_is_written_as_it_is_read() -> None:
    for text in ("a/b", "a/b:Q8_0", "a/b:Q8_0@dev", "hf://a/b/m.gguf", "hf://a/b@dev/x/m.gguf"):
        assert str(parse_ref(text)) == text


def test_split_names() -> None:
    split = parse_split("big-Q4-00002-of-00003.gguf")
    assert split is not None
    assert (split.stem, split.number, split.count) == ("big-Q4", 2, 3)
    assert split.member(3) == "big-Q4-00003-of-00003.gguf"
    for name in ("big.gguf", "big-00004-of-00003.gguf", "big-00000-of-00003.gguf", "big-1-of-3.gguf"):
        assert parse_split(name) is None
    assert model_stem("x/big-Q4-00001-of-00003.gguf") == "big-Q4"
    assert model_stem("SmolLM2.Q4_1.gguf") == "SmolLM2.Q4_1"


@pytest.mark.parametrize(
    ("path", "quant"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("smollm2.q8_0.gguf", "Q8_0"),
        ("model-UD-IQ2_XXS.gguf", "IQ2_XXS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Q6_K/model-00001-of-00002.gguf", "Q6_K"),
        ("model-f16.gguf", "F16"),
        ("model.gguf", ""),
        ("Q4_0-tuned/model-Q5_0.gguf", "Q5_0"),
    ],
)
def test_quantizations_are_read_from_names(path: str, quant: str) -> None:
    assert quant_of(path) == quant


def test_a_repository_is_sorted_into_models() -> None:
    names = [
        "README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-F16.gguf", "mmproj-F16.gguf", "imatrix.gguf",
        "big/m-Q6_K-00002-of-00002.gguf", "big/m-Q6_K-00001-of-00002.gguf", "m-Q5_0-00001-of-00003.gguf",
    ]  # fmt: skip
    models, broken = models_in(RemoteFile(name, 10 * (index + 1)) for index, name in enumerate(names))
    assert {model.quant: len(model.files) for model in models} == {
        "Q4_K_M": 1,
        "Q8_0": 1,
        "F16": 1,
        "Q6_K": 2,
    }
    assert broken == ["m-Q5_0"]
    split = next(model for model in models if model.quant == "Q6_K")
    assert split.files[0].path == "big/m-Q6_K-00001-of-00002.gguf" and split.stem == "m-Q6_K"


def test_the_best_quantization_that_fits_wastes_nothing() -> None:
    models, _ = models_in(
        RemoteFile(f"m-{quant}.gguf", size)
        for quant, size in {"F16": 160, "Q8_0": 85, "Q4_K_M": 50, "Q2_K": 30}.items()
    )
    best = {room: best_that_fits(models, room) for room in (1000, 84, 50, 29)}
    assert [best[room] and best[room].quant for room in best] == ["Q8_0", "Q4_K_M", "Q4_K_M", None]  # type: ignore[union-attr]
    only, _ = models_in([RemoteFile("m-BF16.gguf", 5)])
    alone = best_that_fits(only, 10)
    assert alone is not None and alone.quant == "BF16"


def test_spellings_of_quantizations() -> None:
    assert known_quant("q4_k_m") == known_quant("Q4-K-M") == "Q4_K_M"
    assert known_quant("fp16") == "F16"
    assert known_quant("Q99") is None
