"""What a model's files say of it: the numbers that fitting and showing need."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from meshllm_core.ids import ModelId
from meshllm_core.models.split import model_stem


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps while it computes."""

    key_width: int
    """Elements per token in the key cache."""
    value_width: int
    """Elements per token in the value cache; 0 where the key holds both."""
    windowed: bool = False
    """Whether it keeps only the sliding window."""
    state_bytes: int = 0
    """Bytes per sequence of a recurrent layer, whatever the context."""


@dataclass(frozen=True)
class GgufFacts:
    """A model as its GGUF describes it. Sizes in bytes, lengths in tokens or elements."""

    architecture: str
    name: str
    layers: int
    width: int
    """Length of a hidden vector."""
    vocabulary: int
    context_trained: int
    heads: tuple[int, ...]
    """Query heads of each layer."""
    kv_heads: tuple[int, ...]
    """Key/value heads of each layer."""
    key_length: int
    value_length: int
    feed_forward: int
    """Widest feed-forward activation of one token, counting every expert used."""
    sliding_window: int
    """Tokens a windowed layer looks back on; 0: no layer is windowed."""
    caches: tuple[LayerCache, ...]
    """One per layer that keeps something."""
    parameters: int
    tensor_bytes: int
    """Exact, from the tensor table of every file."""
    file_bytes: int
    quantization: str
    """Name of the mix of tensor types, for example Q4_K_M."""
    has_chat_template: bool
    pooling: int
    """llama.cpp's pooling type: 0 none, 1 mean, 2 first token, 3 last token, 4 rank."""
    embeddings: bool
    """Whether the model makes embeddings instead of text."""
    recurrent: bool
    """Whether any layer keeps a state that cannot be rolled back."""
    files: tuple[Path, ...]
    """The file, or all members of the split set in order; the engine opens the first."""

    @property
    def model_id(self) -> ModelId:
        """The public name."""
        return ModelId(model_stem(self.files[0].name))

    @cached_property
    def windowed(self) -> bool:
        """Whether some layers keep only a sliding window."""
        return any(cache.windowed for cache in self.caches)
