"""Typed, bounded access to the key/values of a GGUF head."""

from collections.abc import Sequence

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.cursor import DAMAGED_HINT
from meshllm_core.models.gguf_file import GgufHead, SkippedArray
from meshllm_core.models.units import printable

MAX_LAYERS = 512
"""llama.cpp's own limit."""
MAX_WIDTH = 1 << 24
"""Larger than any length or count a real model has; keeps products far from absurd."""


class Keys:
    """Key/values of one file; `arch` keys are written without the architecture's prefix."""

    def __init__(self, head: GgufHead, architecture: str) -> None:
        self._head = head
        self._prefix = f"{architecture}."

    def invalid(self, what: str) -> ModelFileInvalid:
        """An error that names the file."""
        return ModelFileInvalid(f"{self._head.path.name} is damaged: {printable(what)}.", hint=DAMAGED_HINT)

    def text(self, key: str, default: str = "") -> str:
        """A string under its full key."""
        value = self._head.values.get(key, default)
        return value if isinstance(value, str) else default

    def present(self, key: str) -> bool:
        """Whether the architecture's key exists."""
        return self._prefix + key in self._head.values

    def number(self, key: str, default: int | None = None, *, least: int = 0, most: int = MAX_WIDTH) -> int:
        """A whole number under the architecture's key; without a default it must be there."""
        value = self._head.values.get(self._prefix + key, default)
        if isinstance(value, tuple) and value:
            value = max((v for v in value if isinstance(v, int)), default=default)
        if not isinstance(value, int):
            raise self.invalid(f"the key {self._prefix}{key} is missing or not a number")
        if not least <= value <= most:
            raise self.invalid(f"{self._prefix}{key} is {value}, which is not between {least} and {most}")
        return int(value)

    def per_layer(self, key: str, layers: int, default: Sequence[int]) -> tuple[int, ...]:
        """A number for each layer, from a scalar or an array of that length."""
        value = self._head.values.get(self._prefix + key)
        if value is None:
            return tuple(default)
        if isinstance(value, int):
            value = (value,) * layers
        if not isinstance(value, tuple) or len(value) < layers:
            raise self.invalid(f"{self._prefix}{key} does not have one value for each of {layers} layers")
        numbers = tuple(int(v) for v in value[:layers] if isinstance(v, int) and 0 <= v <= MAX_WIDTH)
        if len(numbers) != layers:
            raise self.invalid(f"{self._prefix}{key} holds values that no model has")
        return numbers

    def flags(self, key: str, layers: int) -> tuple[bool, ...] | None:
        """An array with a yes or no for each layer, or None if the key is no array."""
        value = self._head.values.get(self._prefix + key)
        if not isinstance(value, tuple):
            return None
        if len(value) < layers:
            raise self.invalid(f"{self._prefix}{key} does not have one value for each of {layers} layers")
        return tuple(bool(v) for v in value[:layers])

    def count(self, key: str) -> int:
        """Length of an array under its full key; 0 if there is none."""
        value = self._head.values.get(key)
        if isinstance(value, SkippedArray):
            return value.count
        return len(value) if isinstance(value, tuple) else 0
