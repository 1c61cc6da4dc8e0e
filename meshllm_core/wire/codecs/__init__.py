"""How rows of hidden state travel: one codec per dtype of the wire. Pure computing over numpy arrays."""

from meshllm_core.errors import ConfigError
from meshllm_core.wire.codecs.base import Codec, Dtype
from meshllm_core.wire.codecs.bf16 import Bf16
from meshllm_core.wire.codecs.f16 import F16
from meshllm_core.wire.codecs.f32 import F32
from meshllm_core.wire.codecs.q8 import Q8
from meshllm_core.wire.codecs.q8x import Q8x

__all__ = ["CODECS", "Codec", "Dtype", "codec_for", "dtype_named"]

CODECS: dict[Dtype, type[Codec]] = {
    Dtype.F32: F32,
    Dtype.F16: F16,
    Dtype.BF16: Bf16,
    Dtype.Q8: Q8,
    Dtype.Q8X: Q8x,
}


def codec_for(dtype: Dtype, width: int) -> Codec:
    """A codec for rows of `width` values. It owns scratch memory: use it from one thread."""
    return CODECS[dtype](width)


def dtype_named(name: str) -> Dtype:
    """The dtype of that label (`f16`, `q8x`…). Raises ConfigError."""
    for dtype in Dtype:
        if dtype.label == name:
            return dtype
    known = ", ".join(dtype.label for dtype in Dtype)
    raise ConfigError(f"There is no wire dtype {name!r}.", hint=f"Use one of: {known}.", param="wire_dtype")
