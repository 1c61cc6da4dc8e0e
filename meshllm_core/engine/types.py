"""What goes into an engine and what comes out: one request type, a few chunk types.

The OpenAI formats are translated at the edge (`api`); inside there is only this.
All are msgspec structs because they also cross the socket to the child process.
"""

from typing import Literal

import msgspec

from meshllm_core.ids import RequestId

StopReason = Literal["stop", "length", "cancelled"]


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is chosen. Defaults are llama.cpp's own. temperature 0 is greedy."""

    temperature: float = 0.8
    top_k: int = 40
    """0 switches it off."""
    top_p: float = 0.95
    """1 switches it off."""
    min_p: float = 0.05
    """0 switches it off."""
    typical_p: float = 1.0
    """1 switches it off."""
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    """Tokens that the penalties look back on; -1 is the whole context."""
    seed: int | None = None
    """None draws one."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, bias added to its logit)."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One completion to compute."""

    request_id: RequestId
    prompt: str | tuple[int, ...]
    """Text (tokenized by the engine) or token ids."""
    parse_special: bool = True
    """Whether special tokens written out in `prompt` are read as such (a rendered chat template needs it)."""
    add_special: bool = True
    """Whether the tokenizer may add BOS (not when the template wrote it)."""
    max_tokens: int | None = None
    """None: until the context is full."""
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    grammar: str = ""
    """GBNF, start rule `root`; empty is none."""
    json_schema: str = ""
    """A JSON schema as JSON text, turned into a grammar by the engine; empty is none."""
    grammar_prefix: str = ""
    grammar_suffix: str = ""
    """Literal text around the JSON that `json_schema` describes, for example a tool call's markers."""
    grammar_triggers: tuple[str, ...] = ()
    """Not empty: the grammar starts only where the text first contains one of these, and covers the trigger
    itself. Empty: from the first token."""
    visible_special: tuple[str, ...] = ()
    """Control tokens whose text is shown instead of dropped (markers that a tool-call parser looks for)."""
    top_logprobs: int | None = None
    """None: no logprobs. 0..20: that many alternatives per token."""
    ignore_eos: bool = False
    """Benchmarks: go on past the end-of-text token."""
    session: str = ""
    """What the requests of one conversation or user have in common, where a client said so: they go to the
    node that still has their beginning in its cache. No engine looks at it, and no other node gets it."""


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """Log probability of one token under the model (before temperature and filters)."""

    token_id: int
    text: bytes
    """The token's bytes; not always whole UTF-8."""
    logprob: float


class PositionLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """The chosen token and the most likely ones, best first."""

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", omit_defaults=True):
    """The request has a lane. Always the first chunk."""

    request_id: RequestId
    prompt_tokens: int
    cached_tokens: int
    """How many of them were already in the KV cache."""
    queue_ms: float
    served_by: str = ""
    """Name of the node whose engine has it; engines leave this empty, serving fills it in."""
    served_by_id: str = ""
    """That node's id, hexadecimal."""
    hops: int = 0
    """Nodes between the client's and the engine's: 0 or 1."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag="delta", omit_defaults=True):
    """Text that became certain: whole UTF-8, and no beginning of a stop string in it."""

    request_id: RequestId
    text: str
    tokens: int
    """Tokens generated since the last delta (0 or more)."""
    logprobs: tuple[PositionLogprobs, ...] = ()


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went, in milliseconds."""

    queue_ms: float
    prefill_ms: float
    """From the first step to the first token."""
    decode_ms: float
    """From the first token to the last."""


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished", omit_defaults=True):
    """The request is over and its lane is free. Always the last chunk, unless an error is raised."""

    request_id: RequestId
    reason: StopReason
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timings: Timings
    stop_text: str = ""
    """The stop string that ended it, if one did."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The engine cannot do this request; others go on. Raised as the error that `code` names."""

    request_id: RequestId
    code: Literal["context_length_exceeded", "invalid_value", "rate_limit_exceeded", "internal_error"]
    message: str
    param: str | None = None


Chunk = Started | Delta | Finished


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded model says of itself. `chat_template` is its Jinja source or empty."""

    architecture: str
    name: str
    parameters: int
    vocabulary: int
    width: int
    """Length of an embedding."""
    layers: int
    context_trained: int
    context: int
    lanes: int
    chat_template: str
    bos_text: str
    eos_text: str
    adds_bos: bool
    """The tokenizer puts BOS before a text by itself."""
    embeddings: bool
    """Whether this is an embedding model (pooling is set); such models do not generate."""
    generates: bool
    device: str
    llama_cpp: str
    """Version of the binding."""
