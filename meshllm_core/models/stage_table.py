"""How each architecture can be cut into stages, as data: where hidden rows enter, where they leave.

A stage is a *window* of layers: those it computes, and zero-weight neighbours around them where a layer's
number or its surroundings carry meaning. Each row says what a window must satisfy, where the hidden rows
enter, where they leave, and what else the stage's file must say. The rows are proved by
`python -m tests.stages.support --all` for the llama.cpp release that the support table names.
"""

from dataclasses import dataclass, field
from typing import Literal

Tokens = Literal["rows", "any", "true"]
"""What a batch that enters in the middle holds: rows; token ids without meaning; the sequence's own ids."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One architecture."""

    refusal: str = ""
    """Why it is never cut; empty if it can be."""
    hook: str = ""
    """The tensor that is overwritten with the rows that come in; empty: they are llama.cpp's own input."""
    tokens: Tokens = "rows"
    restore: str = ""
    """The tensor after which the hook's own value is put back, as it is used for something else too."""
    period: int = 1
    """A window begins at a multiple of it."""
    period_key: str = ""
    """The key that holds the period, if the file says it (0: none)."""
    whole: bool = False
    """A window is all of the model."""
    whole_at: frozenset[int] = frozenset()
    """The same, but only for models of so many layers."""
    bad_lengths: frozenset[int] = frozenset()
    """Windows of so many layers are taken for another model."""
    shortest: int = 1
    """Layers of the smallest window."""
    mixed: bool = False
    """A window holds a recurrent layer and an attention layer."""
    beyond_dense: bool = False
    """A window holds a layer beyond the leading dense ones."""
    every_ratio: bool = False
    """A window holds a layer of every compression ratio that the model has."""
    starts: str = ""
    """The per-layer key that must be 1 where a stage begins."""
    last_start: int = 0
    """Not 0: no stage begins behind this layer."""
    streams: int = 1
    """Residual streams: a row holds so many vectors."""
    streams_outside: bool = False
    """llama.cpp lays the streams out one after another, each with all rows."""
    leaves: str = "l_out-{layer}"
    """The tensor that holds a layer's result."""
    leaves_last: str = ""
    """The same for the last layer of a window, where it has another name."""
    drop: tuple[str, ...] = ()
    """Tensors that a stage in the middle leaves out."""
    zero: tuple[str, ...] = ()
    """Tensors that a stage in the middle holds as zeros."""
    omit_keys: tuple[str, ...] = ()
    """Keys, without prefix, that a stage in the middle leaves out."""
    set_keys: tuple[tuple[str, int | float], ...] = field(default=())
    """Keys, without prefix, that a stage in the middle sets."""


PER_LAYER_KEYS = (
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_used_count",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.sliding_window_pattern",
    "attention.recurrent_layers",
    "attention.rope_pattern",
    "attention.indexer.types",
    "attention.compress_ratios",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
    "deepstack_mapping",
)
"""Keys, without prefix, whose arrays hold one value for each layer."""

PER_LAYER_FULL_KEYS = ("xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps")
"""The same, for keys that carry no prefix."""

SNAPSHOTS = frozenset(
    ("bailingmoe3", "deepseek4", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe")
)
"""Recurrent architectures for which llama.cpp can take back the tail of the last batch (n_rs_seq)."""

_ANY = Rule()
_PLAIN = """
    llama mistral3 qwen qwen2 qwen3 seed_oss arcee internlm2 xverse orion deci maincoder pangu-embedded phi2
    phi3 stablelm starcoder2 codeshell gptneox falcon refact jais jais2 nemotron command-r exaone olmo openelm
    plamo bitnet chatglm hunyuan-dense ernie4_5 apertus qwen2moe qwen3moe olmoe phimoe dbrx arctic grovemoe
    hunyuan-moe minimax-m2 mistral4 deepseek deepseek32 dots1 bailingmoe bailingmoe2 hy_v3 gpt-oss
    olmo2 plamo3 exaone-moe mellum cohere2 cohere2moe laguna mimo2 spark2_5 maple nanbeige minicpm
    mamba mamba2 falcon-h1
"""
_MIXED = "jamba lfm2 lfm2moe kimi-linear bailingmoe3 qwen3next qwen35 qwen35moe"
_LOOPED = "its layers are passed through several times, so no single place divides them"
_V_FIRST = "every layer also reads the values of the first one, which do not travel with the hidden rows"

RULES: dict[str, Rule] = {
    **dict.fromkeys(_PLAIN.split(), _ANY),
    **dict.fromkeys(_MIXED.split(), Rule(mixed=True)),
    **dict.fromkeys(
        ("qwen2vl", "qwen3vl", "qwen3vlmoe"), Rule(set_keys=(("n_deepstack_layers", 0),))
    ),
    **dict.fromkeys(("granite", "granitemoe", "granite_swa"), Rule(omit_keys=("embedding_scale",))),
    **dict.fromkeys(("gpt2", "starcoder"), Rule(zero=("position_embd.weight",))),
    **dict.fromkeys(
        ("nemotron_h", "nemotron_h_moe"), Rule(mixed=True, leaves="nemotron_h_block_out-{layer}")
    ),
    **dict.fromkeys(("glm4", "glm4moe"), Rule(hook="embd", tokens="any")),
    **dict.fromkeys(("rwkv7", "arwkv7"), Rule(refusal=_V_FIRST)),
    "afmoe": Rule(hook="inp_embd_scaled", period=4),
    "baichuan": Rule(whole_at=frozenset((32, 40))),
    "bloom": Rule(hook="inp_norm-0"),
    "deepseek2": Rule(bad_lengths=frozenset((26, 27))),
    "deepseek4": Rule(hook="hc_init", tokens="any", every_ratio=True, streams=4, leaves="l_last-{layer}"),
    "ernie4_5-moe": Rule(period_key="interleave_moe_layer_step"),
    "exaone4": Rule(whole_at=frozenset((64,))),
    "gemma": Rule(hook="inp_scaled"),
    "gemma2": Rule(hook="inp_scaled", whole_at=frozenset((46,))),
    "gemma3": Rule(whole_at=frozenset((62,))),
    "gemma3n": Rule(tokens="true", whole=True, last_start=18, streams=4, streams_outside=True),
    "gemma4": Rule(shortest=2),
    "glm-dsa": Rule(starts="attention.indexer.types"),
    "granitehybrid": Rule(mixed=True, omit_keys=("embedding_scale",)),
    "grok": Rule(set_keys=(("embedding_scale", 1.0),)),
    "hrm_text": Rule(refusal=_LOOPED),
    "hy_v4": Rule(hook="hc_init", starts="attention.indexer.types", streams=4),
    "kimi-k3": Rule(refusal="its layers read the results of blocks before, which do not travel along"),
    "llama4": Rule(period=4),
    "minicpm3": Rule(whole=True),
    "minimax-01": Rule(whole=True),
    "minimax-m3": Rule(beyond_dense=True),
    "mpt": Rule(drop=("position_embd.weight",)),
    "muse-glimmer": Rule(hook="embd_norm"),
    "plamo2": Rule(mixed=True, leaves="ffn_residual-{layer}"),
    "rwkv6qwen2": Rule(refusal="no small model of it has run whole yet, so no cut of it is proved"),
    "rwkv6": Rule(hook="norm_w-0", period_key="rescale_every_n_layers", zero=("token_embd_norm.bias",)),
    "smallthinker": Rule(period=4, bad_lengths=frozenset((4,))),
    "smollm3": Rule(period=4),
    "step35": Rule(leaves="attn_norm_in-{next}", leaves_last="h_nextn"),
    "talkie": Rule(hook="inp_norm", tokens="true", restore="ffn_inp-0"),
}  # fmt: skip
"""Every architecture that is not here is refused."""
