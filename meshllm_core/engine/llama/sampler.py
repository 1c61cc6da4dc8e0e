"""Choosing the next token: llama.cpp's sampler chain, a grammar, and log probabilities.

The grammar is tried on the chosen token first and on the whole vocabulary only when that token is
refused; the other order costs a walk over the vocabulary for every token. llama.cpp aborts the process
when a grammar is fed a token it does not allow, so nothing is fed that was not asked about first.
"""

import ctypes
import importlib
import math
import secrets
from collections.abc import Sequence
from typing import Any

from meshllm_core.engine.contexts import AnyContext
from meshllm_core.engine.limit import GrammarLimit
from meshllm_core.engine.llama.library import api
from meshllm_core.engine.llama.model import Model
from meshllm_core.engine.types import GenerationRequest, PositionLogprobs, Sampling, TokenLogprob
from meshllm_core.errors import InvalidRequest

_limit = GrammarLimit()


class GrammarDeadEnd(Exception):
    """The grammar allows no token of the vocabulary here: the text is complete as it is."""


def _has_penalties(sampling: Sampling) -> bool:
    penalties = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    return penalties != (1.0, 0.0, 0.0) and sampling.penalty_last_n != 0


def _chain(model: Model, sampling: Sampling) -> Any:
    chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())

    def add(sampler: Any) -> None:
        api.llama_sampler_chain_add(chain, sampler)

    if sampling.logit_bias:
        entries = [api.llama_logit_bias(token=t, bias=b) for t, b in sampling.logit_bias]
        array = (api.llama_logit_bias * len(entries))(*entries)
        add(api.llama_sampler_init_logit_bias(model.n_vocab, len(entries), array))
    if _has_penalties(sampling):
        window = model.spec.context if sampling.penalty_last_n < 0 else sampling.penalty_last_n
        add(
            api.llama_sampler_init_penalties(
                model.n_vocab,
                window,
                sampling.repeat_penalty,
                sampling.frequency_penalty,
                sampling.presence_penalty,
            )
        )
    if sampling.temperature <= 0:
        add(api.llama_sampler_init_greedy())
        return chain
    if sampling.top_k > 0:
        add(api.llama_sampler_init_top_k(sampling.top_k))
    if sampling.typical_p < 1:
        add(api.llama_sampler_init_typical(sampling.typical_p, 1))
    if sampling.top_p < 1:
        add(api.llama_sampler_init_top_p(sampling.top_p, 1))
    if sampling.min_p > 0:
        add(api.llama_sampler_init_min_p(sampling.min_p, 1))
    add(api.llama_sampler_init_temp(sampling.temperature))
    seed = sampling.seed if sampling.seed is not None else secrets.randbits(32)
    add(api.llama_sampler_init_dist(seed & 0xFFFFFFFF))
    return chain


class Sampler:
    """One request's sampler. Freed by `close`; used from the engine thread."""

    def __init__(self, model: Model, request: GenerationRequest, grammar: str, start: str) -> None:
        """`grammar` is GBNF with the start rule `start`. Raises InvalidRequest when it is bad."""
        self._model = model
        self._start_rule = start
        self._grammar: Any = None
        self._pending_grammar = ""
        self._triggers = request.grammar_triggers if grammar else ()
        self._seen = ""
        if grammar:
            self._grammar = self._parse(grammar, made=bool(request.json_schema))
            if self._triggers:
                api.llama_sampler_free(self._grammar)
                self._grammar, self._pending_grammar = None, grammar
        self._chain = _chain(model, request.sampling)
        if grammar or request.top_logprobs is not None:
            _numpy()  # here, in the reader's thread, and not in the middle of a step
        self._top_logprobs = request.top_logprobs
        last_n = request.sampling.penalty_last_n
        window = model.spec.context if last_n < 0 else last_n
        self._penalties = window if _has_penalties(request.sampling) else 0

    def _parse(self, grammar: str, *, made: bool) -> Any:
        """`made`: from a JSON schema, and not by the client."""
        sampler = api.llama_sampler_init_grammar(
            self._model.vocab, grammar.encode(), self._start_rule.encode()
        )
        if not sampler and made:
            raise InvalidRequest(
                "The JSON schema gives no usable grammar.",
                hint="A reference must not lead to itself without anything between, and sizes must be small.",
                param="response_format.json_schema.schema",
            )
        if not sampler:
            raise InvalidRequest(
                "The grammar cannot be parsed.",
                hint=f"It must be GBNF with a rule named {self._start_rule} and no left recursion.",
                param="grammar",
            )
        return sampler

    def feed_prompt(self, tokens: Sequence[int]) -> None:
        """Let the penalties, if there are any, see the end of the prompt."""
        if not self._penalties:
            return
        for token in tokens[-self._penalties :]:
            api.llama_sampler_accept(self._chain, token)

    def sample(self, context: AnyContext, index: int) -> tuple[int, PositionLogprobs | None]:
        """The next token after batch index `index`. Raises GrammarDeadEnd."""
        if self._grammar is None and self._top_logprobs is None:
            return int(api.llama_sampler_sample(self._chain, context.handle, index)), None
        candidates = _Candidates(self._model.n_vocab, context.logits_address(index))
        with _limit:
            token = self._choose(candidates)
            if self._grammar is not None and not self._model.is_end(token):
                api.llama_sampler_accept(self._grammar, token)
        logprobs = None if self._top_logprobs is None else self._logprobs(candidates, token)
        api.llama_sampler_accept(self._chain, token)
        return token, logprobs

    def _choose(self, candidates: "_Candidates") -> int:
        token = candidates.pick(self._chain)
        if self._grammar is None or _allows(self._grammar, token):
            return token
        candidates.fill()
        candidates.apply(self._grammar)
        if candidates.none_left():
            raise GrammarDeadEnd
        return candidates.pick(self._chain, refill=False)

    def _logprobs(self, candidates: "_Candidates", token: int) -> PositionLogprobs:
        best, chosen = candidates.log_softmax(self._top_logprobs or 0, token)

        def entry(token_id: int, value: float) -> TokenLogprob:
            return TokenLogprob(token_id, self._model.piece(token_id, special=True), value)

        return PositionLogprobs(entry(token, chosen), tuple(entry(t, v) for t, v in best))

    def note_text(self, text: str) -> None:
        """Text that was generated: starts a waiting grammar where a trigger appears."""
        if not self._pending_grammar:
            return
        self._seen += text
        starts = [at for at in (self._seen.find(trigger) for trigger in self._triggers) if at >= 0]
        if starts:
            with _limit:
                self._start_grammar(self._seen[min(starts) :])
            return
        longest = max(map(len, self._triggers))
        self._seen = self._seen[-longest:]

    def _start_grammar(self, begun: str) -> None:
        """Start it and feed what the trigger's token brought along, as long as it is allowed.

        When what was already generated does not fit, the grammar is given up: the parser of tool calls
        then decides, as it does without one.
        """
        grammar = self._parse(self._pending_grammar, made=True)
        self._pending_grammar = ""
        for token in self._model.tokenize(begun, add_special=False, parse_special=True):
            if not _allows(grammar, token):
                api.llama_sampler_free(grammar)
                return
            api.llama_sampler_accept(grammar, token)
        self._grammar = grammar

    def close(self) -> None:
        """Free llama.cpp's side."""
        api.llama_sampler_free(self._chain)
        if self._grammar is not None:
            api.llama_sampler_free(self._grammar)


def _allows(grammar: Any, token: int) -> bool:
    one = (api.llama_token_data * 1)(api.llama_token_data(id=token, logit=1.0, p=0.0))
    array = api.llama_token_data_array(data=one, size=1, selected=-1, sorted=False)
    api.llama_sampler_apply(grammar, ctypes.byref(array))
    return not math.isinf(one[0].logit)


def _numpy() -> Any:
    """numpy, on first use: it costs an engine 20 MB, and only grammars and logprobs need it."""
    return importlib.import_module("numpy")


class _Candidates:
    """The whole vocabulary as llama.cpp's samplers want it."""

    def __init__(self, n_vocab: int, logits_address: int) -> None:
        self._np = np = _numpy()
        source = (ctypes.c_float * n_vocab).from_address(logits_address)
        self._logits = np.ctypeslib.as_array(source).copy()
        self._rows = np.zeros(n_vocab, dtype=[("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        self.fill()

    def fill(self) -> None:
        """All tokens with their logits, in order."""
        self._rows["id"] = self._np.arange(len(self._logits), dtype=self._np.int32)
        self._rows["logit"] = self._logits
        self._rows["p"] = 0
        pointer = self._rows.ctypes.data_as(ctypes.POINTER(api.llama_token_data))
        self._array = api.llama_token_data_array(
            data=pointer, size=len(self._rows), selected=-1, sorted=False
        )

    def apply(self, sampler: Any) -> None:
        """Run a sampler over the candidates."""
        api.llama_sampler_apply(sampler, ctypes.byref(self._array))

    def none_left(self) -> bool:
        """Whether every candidate is excluded."""
        return bool(self._np.isneginf(self._rows["logit"][: self._array.size]).all())

    def pick(self, chain: Any, *, refill: bool = True) -> int:
        """The token that the chain selects."""
        if refill:
            self.fill()
        self.apply(chain)
        return int(self._array.data[self._array.selected].id)

    def log_softmax(self, count: int, token: int) -> tuple[list[tuple[int, float]], float]:
        """(the `count` most likely tokens with log probabilities, best first; that of `token`)."""
        np = self._np
        logits = self._logits.astype(np.float64)
        peak = logits.max()
        total = peak + np.log(np.exp(logits - peak).sum())
        best: list[tuple[int, float]] = []
        if count:
            top = np.argpartition(-logits, min(count, len(logits) - 1))[:count]
            best = [(int(i), float(logits[i] - total)) for i in top[np.argsort(-logits[top], kind="stable")]]
        return best, float(logits[token] - total)
