"""Does a model fit: against what llama.cpp itself reported, and in words."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ModelTooLarge
from meshllm_core.models.facts import GgufFacts, LayerCache
from meshllm_core.models.fit import (
    MIB,
    EngineSettings,
    compute_bytes,
    fit_model,
    kv_bytes,
    plan_load,
    verify,
)
from meshllm_core.models.inspect import inspect_model

GIB = 1 << 30

SMOLLM2 = GgufFacts(
    architecture="llama", name="SmolLM2 135M", layers=30, width=576, vocabulary=49152, context_trained=8192,
    heads=(9,) * 30, kv_heads=(3,) * 30, key_length=64, value_length=64, feed_forward=1536,
    sliding_window=0, caches=(LayerCache(192, 192),) * 30, parameters=134_515_008, tensor_bytes=96_576_768,
    file_bytes=98_362_432, quantization="Q4_1", has_chat_template=True, pooling=0, embeddings=False,
    recurrent=False, files=(Path("SmolLM2-135M-Instruct.Q4_1.gguf"),),
)  # fmt: skip

GEMMA3 = replace(
    SMOLLM2, architecture="gemma3", name="Gemma 3 270m", layers=18, width=640, vocabulary=262144,
    context_trained=32768, heads=(4,) * 18, kv_heads=(1,) * 18, key_length=256, value_length=256,
    feed_forward=2048, sliding_window=512, tensor_bytes=246_587_904, quantization="Q4_K_M",
    caches=tuple(LayerCache(256, 256, windowed=layer % 6 != 5) for layer in range(18)),
    files=(Path("gemma-3-270m-q4_k_m.gguf"),),
)  # fmt: skip

# What llama.cpp of llama-cpp-python 0.3.36 logged on a processor with flash attention, in MiB:
# cells, sequences, batch, full window cache, outputs; KV buffers together; compute buffer.
LOGGED = [
    (SMOLLM2, 512, 1, 512, False, 512, 11.25, 98.25),
    (SMOLLM2, 2048, 1, 512, False, 512, 45.0, 102.51),
    (SMOLLM2, 4096, 1, 512, False, 512, 90.0, 98.25),
    (SMOLLM2, 32768, 4, 512, True, 512, 720.0, 98.25),
    (SMOLLM2, 8192, 4, 512, True, 4, 180.0, 21.51),
    (SMOLLM2, 8192, 4, 128, True, 128, 180.0, 24.56),
    (SMOLLM2, 32768, 4, 512, False, 4, 720.0, 45.51),
    (SMOLLM2, 8192, 4, 256, False, 8, 180.0, 10.76),
    (GEMMA3, 512, 1, 512, False, 512, 9.0, 514.5),
    (GEMMA3, 8192, 1, 512, False, 512, 39.0, 514.5),
    (GEMMA3, 8192, 4, 512, False, 512, 61.5, 514.5),
    (GEMMA3, 32768, 4, 512, True, 512, 576.0, 514.5),
    (GEMMA3, 8192, 4, 512, True, 4, 144.0, 33.77),
    (GEMMA3, 8192, 4, 128, True, 128, 144.0, 128.63),
    (GEMMA3, 32768, 4, 512, False, 4, 133.5, 52.27),
    (GEMMA3, 8192, 4, 256, False, 8, 57.75, 14.01),
]


@pytest.mark.parametrize(("facts", "cells", "lanes", "batch", "full", "outputs", "kv", "compute"), LOGGED)
def test_predictions_stay_within_15_percent_above_what_was_logged(
    facts: GgufFacts, cells: int, lanes: int, batch: int, full: bool, outputs: int, kv: float, compute: float
) -> None:
    settings = EngineSettings(batch=batch, outputs=outputs, full_window_cache=full)
    assert kv_bytes(facts, cells // lanes, lanes, settings) == kv * MIB
    handed_out = lanes * facts.vocabulary * 4
    predicted = compute_bytes(facts, cells // lanes, lanes, settings) - handed_out
    assert compute * MIB <= predicted <= 1.15 * compute * MIB


@pytest.mark.model
def test_predictions_match_llama_cpp_on_the_real_model(real_model: Path) -> None:
    cases = [(2048, 1), (1024, 4)]
    script = Path(__file__).with_name("measure_buffers.py")
    command = [sys.executable, str(script), str(real_model), json.dumps(cases)]
    measured = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    facts = inspect_model(real_model)
    for (context, lanes), found in zip(cases, measured, strict=True):
        fit = fit_model(facts, context, lanes=lanes, memory_available=8 * GIB)
        assert fit.kv_bytes == pytest.approx(found["kv"] * MIB, abs=MIB / 50)
        assert fit.tensor_bytes == pytest.approx(found["model"] * MIB, abs=MIB / 50)
        buffers = (found["compute"] + found["output"]) * MIB
        assert buffers <= fit.compute_bytes <= 1.15 * buffers


def test_a_plan_takes_what_was_asked_if_it_fits() -> None:
    plan = plan_load(SMOLLM2, context_requested=1000, lanes=3, memory_available=4 * GIB)
    assert (plan.context, plan.lanes, plan.cells, plan.note) == (1000, 3, 3072, "")
    assert plan.fit.fits and plan.fit.model_bytes < GIB


def test_an_automatic_context_is_the_usual_one_or_what_the_model_knows() -> None:
    assert plan_load(SMOLLM2, context_requested=0, lanes=1, memory_available=4 * GIB).context == 8192
    short = replace(SMOLLM2, context_trained=2048)
    assert plan_load(short, context_requested=0, lanes=1, memory_available=4 * GIB).context == 2048
    long = plan_load(GEMMA3, context_requested=0, lanes=1, memory_available=4 * GIB)
    assert long.context == 8192 and "32768" in long.note


def test_an_automatic_context_shrinks_to_fit_and_says_so() -> None:
    plan = plan_load(SMOLLM2, context_requested=0, lanes=4, memory_available=600 * MIB)
    assert 512 <= plan.context < 8192
    assert plan.fit.fits
    assert f"{plan.context} tokens instead of 8192" in plan.note
    more = plan_load(
        SMOLLM2, context_requested=plan.context, lanes=4, memory_available=600 * MIB
    ).fit.largest_context
    assert more == plan.context


def test_a_refusal_says_every_term_and_what_would_fit() -> None:
    with pytest.raises(ModelTooLarge) as caught:
        plan_load(SMOLLM2, context_requested=8192, lanes=8, memory_available=900 * MIB)
    text, hint = caught.value.message, caught.value.hint
    for part in (
        "92.1 MiB weights",
        "1.41 GiB KV cache",
        "compute buffer",
        "reserve",
        "900 MiB are available",
    ):
        assert part in text
    context = int(hint.split("--ctx-size ")[1].split()[0])
    lanes = int(hint.split("--lanes ")[1].split()[0])
    assert plan_load(SMOLLM2, context_requested=context, lanes=8, memory_available=900 * MIB).fit.fits
    assert plan_load(SMOLLM2, context_requested=8192, lanes=lanes, memory_available=900 * MIB).fit.fits
    assert "smaller quantization" in hint


def test_too_little_for_any_context_is_refused_even_automatically() -> None:
    with pytest.raises(ModelTooLarge, match="does not fit"):
        plan_load(SMOLLM2, context_requested=0, lanes=1, memory_available=200 * MIB)


def test_a_limit_counts_but_not_twice() -> None:
    limited = plan_load(
        SMOLLM2, context_requested=0, lanes=1, memory_available=64 * GIB, max_memory=400 * MIB
    )
    assert limited.fit.available_bytes == 400 * MIB
    assert limited.fit.reserve_bytes == 0
    with pytest.raises(ModelTooLarge, match="100 MiB are available"):
        plan_load(SMOLLM2, context_requested=0, lanes=1, memory_available=GIB, max_memory=100 * MIB)


def test_a_context_beyond_the_training_is_allowed_with_a_word() -> None:
    plan = plan_load(SMOLLM2, context_requested=16384, lanes=1, memory_available=8 * GIB)
    assert plan.context == 16384 and "trained" in plan.note


def test_a_prediction_is_compared_with_what_was_measured() -> None:
    fit = plan_load(SMOLLM2, context_requested=2048, lanes=1, memory_available=4 * GIB).fit
    assert verify(fit, fit.model_bytes + 100 * MIB) == ""
    assert "300 MiB more than was predicted" in verify(fit, fit.model_bytes + 300 * MIB)


def test_a_smaller_kv_type_and_a_full_window_cache_are_counted() -> None:
    f16 = kv_bytes(GEMMA3, 8192, 1, EngineSettings())
    assert kv_bytes(GEMMA3, 8192, 1, EngineSettings(kv_type="q8_0")) == f16 * 34 // 64
    assert kv_bytes(GEMMA3, 8192, 1, EngineSettings(full_window_cache=True)) > 3 * f16


def test_an_embedding_model_takes_its_whole_context_in_one_step() -> None:
    encoder = replace(SMOLLM2, architecture="bert", caches=(), pooling=1, embeddings=True)
    settings = EngineSettings()
    assert kv_bytes(encoder, 512, 4, settings) == 0
    assert compute_bytes(encoder, 512, 4, settings) < compute_bytes(encoder, 2048, 4, settings)


def test_recurrent_state_grows_with_sequences_not_with_context() -> None:
    mamba = replace(SMOLLM2, caches=(LayerCache(0, 0, state_bytes=1000),) * 30, recurrent=True)
    settings = EngineSettings(sequences=6)
    assert kv_bytes(mamba, 512, 4, settings) == kv_bytes(mamba, 8192, 4, settings) == 30 * 1000 * 6


@given(
    context=st.integers(512, 32768),
    lanes=st.integers(1, 16),
    memory=st.integers(200 * MIB, 4 * GIB),
    facts=st.sampled_from([SMOLLM2, GEMMA3]),
)
def test_what_is_promised_fits_and_more_does_not(
    context: int, lanes: int, memory: int, facts: GgufFacts
) -> None:
    fit = fit_model(facts, context, lanes=lanes, memory_available=memory)
    largest = fit.largest_context
    assert fit.fits == (fit.needed_bytes <= memory)
    if fit.fits:
        assert min(context, facts.context_trained) - 256 < largest or largest >= context
    if largest:
        assert fit_model(facts, largest, lanes=lanes, memory_available=memory).fits
    if largest and largest < facts.context_trained:
        assert not fit_model(facts, largest + 256, lanes=lanes, memory_available=memory).fits
