"""What another node asks for, checked as strictly as what a client asks for. Pure."""

import math
import re

from meshllm_core.engine.types import GenerationRequest, ModelFacts, Sampling
from meshllm_core.errors import InvalidRequest, UnsupportedFeature

INPUTS = 2048
"""Inputs of one embeddings call."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9#._-]{1,80}")
_INT32 = 1 << 31
_SEED = 1 << 63
_TEXTS = 128
"""Stop strings, triggers or visible tokens of one request."""
_TEXT_LENGTH = 4096
_GRAMMAR = 1 << 20
"""Characters of a grammar or a schema, before the engine looks at it with narrower bounds."""
_LOGIT_BIAS = 256
_ALTERNATIVES = 20
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (0, 1),
    "repeat_penalty": (0, 10),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "top_k": (-1, _INT32 - 1),
    "penalty_last_n": (-1, _INT32 - 1),
}


def check_generation(request: GenerationRequest, facts: ModelFacts) -> None:
    """Raises InvalidRequest or UnsupportedFeature for what this node's own clients could not ask for."""
    if not facts.generates:
        raise UnsupportedFeature("The model makes embeddings and does not write.", param="model")
    _require(_REQUEST_ID.fullmatch(request.request_id) is not None, "request_id")
    if isinstance(request.prompt, str):
        check_text(request.prompt, "prompt")
    else:
        check_tokens(request.prompt, facts, "prompt")
    _require(request.max_tokens is None or 0 <= request.max_tokens < _INT32, "max_tokens")
    _require(request.top_logprobs is None or 0 <= request.top_logprobs <= _ALTERNATIVES, "top_logprobs")
    for field in ("stop", "grammar_triggers", "visible_special"):
        texts: tuple[str, ...] = getattr(request, field)
        _require(len(texts) <= _TEXTS and all(0 < len(text) <= _TEXT_LENGTH for text in texts), field)
        for text in texts:
            check_text(text, field)
    for field in ("grammar", "json_schema", "grammar_prefix", "grammar_suffix"):
        _require(len(getattr(request, field)) <= _GRAMMAR, field)
        check_text(getattr(request, field), field)
    _check_sampling(request.sampling, facts)


def _check_sampling(sampling: Sampling, facts: ModelFacts) -> None:
    for field, (lowest, highest) in _RANGES.items():
        # Also false for NaN.
        _require(lowest <= getattr(sampling, field) <= highest, field)
    _require(sampling.seed is None or -_SEED <= sampling.seed < _SEED, "seed")
    _require(len(sampling.logit_bias) <= _LOGIT_BIAS, "logit_bias")
    _require(all(math.isfinite(bias) for _, bias in sampling.logit_bias), "logit_bias")
    _require(all(0 <= token < facts.vocabulary for token, _ in sampling.logit_bias), "logit_bias")


def check_inputs(inputs: tuple[str | tuple[int, ...], ...], facts: ModelFacts) -> None:
    """The same for an embeddings call."""
    if not facts.embeddings:
        raise UnsupportedFeature("The model does not make embeddings.", param="model")
    _require(0 < len(inputs) <= INPUTS, "input")
    for item in inputs:
        _require(len(item) > 0, "input")
        if isinstance(item, str):
            check_text(item, "input")
        else:
            check_tokens(item, facts, "input")


def check_text(text: str, param: str) -> None:
    """Raises InvalidRequest for a text with NUL, at which programs in C stop reading."""
    _require("\0" not in text, param)


def check_tokens(tokens: tuple[int, ...], facts: ModelFacts, param: str) -> None:
    """Raises InvalidRequest for a token id that the model does not have."""
    _require(not tokens or (min(tokens) >= 0 and max(tokens) < facts.vocabulary), param)


def _require(holds: bool, param: str) -> None:
    if not holds:
        raise InvalidRequest(f"Invalid '{param}' in a call from another node.", param=param)
