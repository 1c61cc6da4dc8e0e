"""The key/values of a stage's file: bytes of the source, but for the few that a stage says differently."""

import math
import struct

import msgspec

from meshllm_core.models.architectures import HYBRID_BY_INTERVAL, WINDOWS
from meshllm_core.models.gguf_file import SkippedArray
from meshllm_core.models.stage_rules import StageRules, StageShape
from meshllm_core.models.stage_table import PER_LAYER_FULL_KEYS, PER_LAYER_KEYS

SHAPE_KEY = "meshllm.stage"
"""Holds the StageShape as JSON: a stage's file says itself what it is."""
EMBEDDING_KEY = "meshllm.embedding"
"""Holds the EmbeddingPlace as JSON, in a stage that looks its rows up."""
DUMMY_VOCABULARY = 8
"""Rows of the token embedding where nothing reads it."""


class EmbeddingPlace(msgspec.Struct, frozen=True):
    """The token embedding in the last bytes of a stage's file."""

    type: str
    """Of its elements, by ggml's name."""
    rows: int
    nbytes: int
    scale: float
    """What the architecture multiplies the embeddings of tokens by."""


_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of an array's element, by GGUF's value type."""
_U32, _I32, _F32, _STRING, _ARRAY = 4, 5, 6, 8, 9
_SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def number_entry(key: str, value: int | float) -> bytes:
    """A key with an unsigned 32-bit or a 32-bit float value."""
    kind = "f" if isinstance(value, float) else "I"
    return _text(key) + struct.pack(f"<I{kind}", _F32 if kind == "f" else _U32, value)


def text_entry(key: str, value: str) -> bytes:
    """A key with a string."""
    return _text(key) + struct.pack("<I", _STRING) + _text(value)


def array_entry(key: str, values: list[int]) -> bytes:
    """A key with an array of unsigned 32-bit numbers."""
    head = struct.pack("<IIQ", _ARRAY, _U32, len(values))
    return _text(key) + head + struct.pack(f"<{len(values)}I", *values)


def embedding_entry(rules: StageRules, kind: str, nbytes: int) -> bytes:
    """The key that says where a stage's rows are; the stage must be one that looks them up."""
    place = EmbeddingPlace(kind, rules.source.vocabulary, nbytes, rules.lookup_scale or 1.0)
    return text_entry(EMBEDDING_KEY, msgspec.json.encode(place).decode())


def sliced_entry(entry: bytes, first: int, last: int) -> bytes:
    """An array's entry with its elements [first, last); `entry` holds at least `last` numbers."""
    (length,) = struct.unpack_from("<Q", entry)
    _, kind, _ = struct.unpack_from("<IIQ", entry, 8 + length)
    start, size = 8 + length + 16, _SIZES[kind]
    head = entry[: 8 + length] + struct.pack("<IIQ", _ARRAY, kind, last - first)
    return head + entry[start + first * size : start + last * size]


def stage_entries(rules: StageRules, shape: StageShape, *, vocabulary: int) -> list[bytes]:
    """All key/values of a stage. `vocabulary` is the number of rows of its token embedding."""
    own = _own(rules, shape)
    if not shape.last:
        own["tokenizer.ggml.model"] = text_entry("tokenizer.ggml.model", "none")
        own[f"{shape.architecture}.vocab_size"] = number_entry(f"{shape.architecture}.vocab_size", vocabulary)
    source = rules.source
    kept = []
    for key in source.head.values:
        if key in own or key in _SPLIT_KEYS or _left_out(rules, shape, key):
            continue
        kept.append(source.entry(key))
    return kept + list(own.values())


def _left_out(rules: StageRules, shape: StageShape, key: str) -> bool:
    if not shape.last and key.startswith("tokenizer."):
        return True
    _, _, name = key.partition(".")
    return not shape.first and name in rules.rule.omit_keys


def _own(rules: StageRules, shape: StageShape) -> dict[str, bytes]:
    """The entries that differ from the source, by full key."""
    source, prefix = rules.source, f"{shape.architecture}."
    first, last = shape.window_start, shape.window_end
    own = {
        SHAPE_KEY: text_entry(SHAPE_KEY, msgspec.json.encode(shape).decode()),
        f"{prefix}block_count": number_entry(f"{prefix}block_count", last - first),
    }
    for key in (*(prefix + name for name in PER_LAYER_KEYS), *PER_LAYER_FULL_KEYS):
        if source.is_array(key):
            own[key] = sliced_entry(_whole_array(rules, key), first, last)
    # Counts from the front are those of the window.
    for name in ("leading_dense_block_count", "hash_layer_count"):
        if source.keys.present(name):
            own[prefix + name] = number_entry(prefix + name, max(0, source.keys.number(name) - first))
    if source.keys.present("nextn_predict_layers"):
        own[f"{prefix}nextn_predict_layers"] = number_entry(f"{prefix}nextn_predict_layers", 0)
    if not shape.first:
        for name, value in rules.rule.set_keys:
            own[prefix + name] = number_entry(prefix + name, value)
    _patterns(rules, shape, own)
    _defaults(rules, shape, own)
    return own


def _whole_array(rules: StageRules, key: str) -> bytes:
    values = rules.source.head.values[key]
    count = values.count if isinstance(values, SkippedArray) else len(values)  # type: ignore[arg-type]
    if count < rules.layers or isinstance(values, SkippedArray):
        raise rules.source.keys.invalid(f"{key} does not have one number for each of {rules.layers} layers")
    return rules.source.entry(key)


def _patterns(rules: StageRules, shape: StageShape, own: dict[str, bytes]) -> None:
    """Which layers slide or recur, written out: a period counts from the window's first layer."""
    first, last, architecture = shape.window_start, shape.window_end, shape.architecture
    key = f"{architecture}.attention.sliding_window_pattern"
    if architecture in WINDOWS and any(rules.windowed) and key not in own:
        own[key] = array_entry(key, [int(flag) for flag in rules.windowed[first:last]])
    key = f"{architecture}.attention.recurrent_layers"
    if architecture in HYBRID_BY_INTERVAL and architecture != "minimax-01" and key not in own:
        own[key] = array_entry(key, [int(flag) for flag in rules.recurrent[first:last]])


def _defaults(rules: StageRules, shape: StageShape, own: dict[str, bytes]) -> None:
    """What llama.cpp would derive from the number of layers or the vocabulary, and so get wrong here."""
    keys, prefix = rules.source.keys, f"{shape.architecture}."

    def give(name: str, value: int | float) -> None:
        if not keys.present(name):
            own[prefix + name] = number_entry(prefix + name, value)

    match shape.architecture:
        case "minicpm":
            give("residual_scale", _f32(_f32(1.4) / _f32(math.sqrt(rules.layers))))
            give("logit_scale", 256.0 / shape.width)
            if not shape.first:
                own[f"{prefix}embedding_scale"] = number_entry(f"{prefix}embedding_scale", 1.0)
        case "deepseek2":
            sigmoid = rules.layers in (47, 48) and rules.source.vocabulary == 154880
            give("expert_gating_func", 2 if sigmoid else 1)
            if rules.lite:
                own[f"{prefix}attention.q_lora_rank"] = number_entry(f"{prefix}attention.q_lora_rank", 0)
        case "gemma4" if shape.window_end <= rules.shared_from < rules.layers:
            own[f"{prefix}attention.shared_kv_layers"] = number_entry(
                f"{prefix}attention.shared_kv_layers", 0
            )


def _f32(value: float) -> float:
    """Rounded as llama.cpp computes it, in 32 bits."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
