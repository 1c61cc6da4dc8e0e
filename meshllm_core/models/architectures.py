"""What llama.cpp knows, as data: names of architectures and how each lays out its cache.

Taken from the source of the pinned binding (llama-cpp-python 0.3.36): `llama-arch.cpp` and the
`load_arch_hparams` of each architecture. It belongs to every change of that pin.
"""

from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BINDING = "llama-cpp-python 0.3.36"
"""The release that this data describes."""

KNOWN: frozenset[str] = _words(
    """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom
    chameleon chatglm clip codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2
    deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe
    eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n
    gemma4 gemma4-assistant glm-dsa glm4 glm4moe glm5-next gpt-oss gpt2 gptj gptneox granite granite_swa
    granitehybrid granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl
    hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna lfm2
    lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2 maple mellum mimo2 minicpm
    minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt muse-glimmer nanbeige
    nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion
    paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe
    qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1
    rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35
    t5 t5encoder talkie wavtokenizer-dec xverse
    """
)
"""Every value of `general.architecture` that llama.cpp loads."""

NOT_LANGUAGE: frozenset[str] = frozenset({"clip", "wavtokenizer-dec", "pockettts"})
"""Projectors and vocoders: llama.cpp knows them, but they answer no text request by themselves."""

NEEDS_TARGET: frozenset[str] = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Draft heads that only work beside the model they were made for."""

WITHOUT_CACHE: frozenset[str] = _words(
    """
    bert dream eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llada llada-moe modern-bert neo-bert
    nomic-bert nomic-bert-moe rnd1 wavtokenizer-dec
    """
)
"""Encoders and diffusion models: no KV cache."""

ENCODERS: frozenset[str] = _words(
    """
    bert eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llama-embed modern-bert neo-bert nomic-bert
    nomic-bert-moe t5encoder
    """
)
"""They make embeddings and no text."""

RECURRENT: frozenset[str] = _words("arwkv7 mamba mamba2 rwkv6 rwkv6qwen2 rwkv7")
"""Every layer keeps a state instead of a KV cache."""

HYBRID: frozenset[str] = _words(
    """
    bailingmoe3 deepseek4 falcon-h1 glm5-next granitehybrid jamba kimi-k3 kimi-linear lfm2 lfm2moe
    minimax-01 nemotron_h nemotron_h_moe plamo2 qwen35 qwen35moe qwen3next qwen4exp
    """
)
"""Some layers keep a state, some a KV cache."""

HYBRID_BY_INTERVAL: frozenset[str] = _words("minimax-01 qwen35 qwen35moe qwen3next qwen4exp")
"""Hybrids whose recurrent layers come from `attention.recurrent_layers`, else from a period (default 4)."""

KV_FROM_START: dict[str, int] = {"gemma3n": 20}
"""Architectures of which only the first so many layers own a KV cache."""


class Window(NamedTuple):
    """How an architecture spreads its sliding window over the layers when the file has no pattern."""

    period: int
    """Every so many layers one is full; 0: the file's own pattern is required, 1: no layer slides."""
    full_first: bool = False
    """Whether the full layer is the first of its period instead of the last."""
    default: int = 0
    """Tokens of the window when the file does not say; 0: no window then."""
    only_layers: int = 0
    """Not 0: the window exists only in models of exactly that many layers."""


WINDOWS: dict[str, Window] = {
    "afmoe": Window(4),
    "cohere2": Window(4),
    "cohere2moe": Window(4, full_first=True),
    "dots3note": Window(0),
    "exaone-moe": Window(4),
    "exaone4": Window(4, only_layers=64),
    "gemma2": Window(2, default=4096),
    "gemma3": Window(6),
    "gemma3n": Window(5),
    "gemma4": Window(0),
    "gpt-oss": Window(2),
    "granite_swa": Window(0),
    "laguna": Window(4, full_first=True),
    "llama4": Window(4, default=8192),
    "maple": Window(0),
    "mellum": Window(4),
    "mimo2": Window(0),
    "muse-glimmer": Window(4),
    "olmo2": Window(4),
    "plamo3": Window(8),
    "smallthinker": Window(4, full_first=True),
    "spark2_5": Window(0),
    "step35": Window(0),
}
"""Architectures whose sliding-window layers llama.cpp gives a smaller cache. All others count as full."""
