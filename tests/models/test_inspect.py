"""Facts of a model: from one file, from a split set, and refusals of what cannot be loaded."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from meshllm_core.errors import ModelFileInvalid, ModelNotFound
from meshllm_core.models.architectures import ENCODERS, HYBRID, KNOWN, RECURRENT, WINDOWS, WITHOUT_CACHE
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.units import printable, show_bytes
from tests.models.conftest import WriteGguf


def test_facts_of_the_real_model(real_model: Path) -> None:
    facts = inspect_model(real_model)
    assert facts.model_id == "SmolLM2-135M-Instruct.Q4_1"
    assert (facts.architecture, facts.layers, facts.width) == ("llama", 30, 576)
    assert (facts.vocabulary, facts.context_trained) == (49152, 8192)
    assert (facts.parameters, facts.tensor_bytes) == (134_515_008, 96_576_768)
    assert facts.heads == (9,) * 30 and facts.kv_heads == (3,) * 30
    assert (facts.key_length, facts.value_length) == (64, 64)
    assert facts.quantization == "Q4_1"
    assert facts.has_chat_template and not facts.embeddings and not facts.recurrent and not facts.windowed
    assert facts.file_bytes == real_model.stat().st_size


def write_split(folder: Path, count: int, name: str = "big") -> list[Path]:
    path = folder / "big.gguf"
    writer = GGUFWriter(path, "llama", split_max_tensors=1)
    for key, value in {
        "block_count": 2, "context_length": 512, "embedding_length": 32, "attention.head_count": 4,
    }.items():  # fmt: skip
        writer.add_uint32(f"llama.{key}", value)
    writer.add_name(name)
    for number in range(count):
        writer.add_tensor(f"blk.{number}.attn_q.weight", np.zeros((32, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob("big*.gguf"))


def test_a_split_set_is_one_model_whichever_part_is_named(tmp_path: Path) -> None:
    files = write_split(tmp_path, 3)
    assert files[0].name == "big-00001-of-00003.gguf"
    by_first, by_last = inspect_model(files[0]), inspect_model(files[2])
    assert by_first == by_last
    assert by_first.model_id == "big"
    assert by_first.files == tuple(files)
    assert by_first.tensor_bytes == 3 * 32 * 32 * 4


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files = write_split(tmp_path, 3)
    files[1].unlink()
    with pytest.raises(ModelNotFound, match=r"big-00002-of-00003\.gguf"):
        inspect_model(files[0])


def test_a_part_under_another_name_is_told_to_take_its_own(tmp_path: Path) -> None:
    renamed = write_split(tmp_path, 2)[0].rename(tmp_path / "mine.gguf")
    with pytest.raises(ModelFileInvalid, match="one part of 2"):
        inspect_model(renamed)


@pytest.mark.parametrize(
    ("architecture", "says"),
    [("llamma", "knows 'llama'"), ("clip", "images or sound"), ("eagle3", "draft head")],
)
def test_architectures_that_cannot_serve_are_named(gguf: WriteGguf, architecture: str, says: str) -> None:
    with pytest.raises(ModelFileInvalid, match=says):
        inspect_model(gguf(architecture=architecture))


def test_a_name_from_a_file_cannot_move_the_cursor(tmp_path: Path) -> None:
    (path,) = write_split(tmp_path, 1, name="a\x1b[2J\u202eb")
    assert inspect_model(path).name == "a [2J b"
    assert printable("a\x1b[2Jb\u202e\nc") == "a [2Jb c"


def test_numbers_no_model_has_are_refused(gguf: WriteGguf) -> None:
    for wrong in ({"block_count": 100_000}, {"embedding_length": 0}, {"attention__head_count": [4]}):
        with pytest.raises(ModelFileInvalid):
            inspect_model(gguf(**wrong))


def test_sliding_windows_follow_the_architecture_or_the_file(gguf: WriteGguf) -> None:
    by_period = inspect_model(gguf(architecture="gemma3", layers=6, attention__sliding_window=512))
    assert [cache.windowed for cache in by_period.caches] == [True] * 5 + [False]
    assert by_period.sliding_window == 512
    pattern = [False, True, True, False]
    by_file = inspect_model(
        gguf(
            architecture="gpt-oss",
            layers=4,
            attention__sliding_window=128,
            attention__sliding_window_pattern=pattern,
        )
    )
    assert [cache.windowed for cache in by_file.caches] == pattern
    full_first = inspect_model(gguf(architecture="cohere2moe", layers=4, attention__sliding_window=128))
    assert [cache.windowed for cache in full_first.caches] == [False, True, True, True]
    without = inspect_model(gguf(architecture="phi3", layers=4, attention__sliding_window=128))
    assert not without.windowed


def test_recurrent_and_hybrid_layers_keep_a_state(gguf: WriteGguf) -> None:
    state = {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16, "ssm__group_count": 0}
    mamba = inspect_model(gguf(architecture="mamba", **state))
    assert mamba.recurrent
    assert [cache.state_bytes for cache in mamba.caches] == [(3 * 128 + 16 * 128) * 4] * 2
    assert all(cache.key_width == 0 for cache in mamba.caches)
    hybrid = inspect_model(gguf(architecture="jamba", attention__head_count_kv=[0, 2], **state))
    assert [cache.state_bytes > 0 for cache in hybrid.caches] == [True, False]
    assert [cache.key_width for cache in hybrid.caches] == [0, 2 * 16]
    by_interval = inspect_model(gguf(architecture="qwen3next", layers=4, **state))
    assert [cache.state_bytes > 0 for cache in by_interval.caches] == [True, True, True, False]


def test_latent_attention_keeps_keys_only(gguf: WriteGguf) -> None:
    lengths = {"attention__key_length": 576, "attention__value_length": 512, "attention__head_count_kv": 1}
    facts = inspect_model(
        gguf(
            architecture="deepseek2",
            attention__key_length_mla=192,
            attention__value_length_mla=128,
            **lengths,
        )
    )
    assert [(cache.key_width, cache.value_width) for cache in facts.caches] == [(576, 0)] * 2


def test_embedding_models_are_recognised(gguf: WriteGguf) -> None:
    encoder = inspect_model(gguf(architecture="bert", pooling_type=1))
    assert encoder.embeddings and encoder.caches == ()
    assert inspect_model(gguf(architecture="qwen3", pooling_type=3)).embeddings
    assert not inspect_model(gguf(architecture="qwen3", pooling_type=0)).embeddings


def test_the_lists_of_architectures_agree_with_each_other() -> None:
    assert {"llama", "qwen3", "gemma3", "gpt-oss", "mamba"} <= KNOWN
    for names in (WITHOUT_CACHE, ENCODERS, RECURRENT, HYBRID, frozenset(WINDOWS)):
        assert names <= KNOWN
    assert not RECURRENT & HYBRID


def test_bytes_are_shown_with_three_digits() -> None:
    shown = [show_bytes(count) for count in (0, 1023, 1024, 96_576_768, 10 << 30, 1023 << 20, 1 << 50)]
    assert shown == ["0 bytes", "1023 bytes", "1.00 KiB", "92.1 MiB", "10.0 GiB", "1.00 GiB", "1024 TiB"]
