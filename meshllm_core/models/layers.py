"""Which layers of an architecture keep what: llama.cpp's own rules, read from its source."""

from meshllm_core.models.architectures import (
    HYBRID,
    HYBRID_BY_INTERVAL,
    KV_FROM_START,
    RECURRENT,
    WINDOWS,
    WITHOUT_CACHE,
)
from meshllm_core.models.facts import LayerCache
from meshllm_core.models.keys import Keys

_STATE_ELEMENT = 4
"""Recurrent state is f32."""


def sliding_window(keys: Keys, architecture: str, layers: int) -> int:
    """Tokens of the window, 0 where llama.cpp uses none."""
    window = WINDOWS.get(architecture)
    if window is None or (window.only_layers and window.only_layers != layers):
        if architecture == "lfm2":
            return keys.number("attention.sliding_window", 0)
        return 0
    found = keys.number("attention.sliding_window", window.default)
    # llama4 takes the key as a switch only: the chunk is always 8192.
    return window.default if found and architecture == "llama4" else found


def windowed_layers(keys: Keys, architecture: str, layers: int) -> tuple[bool, ...]:
    """For each layer whether it keeps only the window."""
    if not sliding_window(keys, architecture, layers):
        return (False,) * layers
    if architecture == "lfm2":
        return (True,) * layers
    pattern = keys.flags("attention.sliding_window_pattern", layers)
    if pattern is not None:
        return pattern
    window = WINDOWS[architecture]
    period = keys.number("attention.sliding_window_pattern", window.period)
    if not window.period and not keys.present("attention.sliding_window_pattern"):
        return (False,) * layers
    full = 0 if window.full_first else period - 1
    return tuple(not period or layer % period != full for layer in range(layers))


def recurrent_layers(
    keys: Keys, architecture: str, layers: int, kv_heads: tuple[int, ...]
) -> tuple[bool, ...]:
    """For each layer whether it keeps a recurrent state."""
    if architecture in RECURRENT or architecture == "falcon-h1":
        return (True,) * layers
    if architecture in HYBRID_BY_INTERVAL:
        listed = keys.flags("attention.recurrent_layers", layers)
        if listed is not None:
            return listed
        period = keys.number("full_attention_interval", 4, least=1)
        return tuple((layer + 1) % period != 0 for layer in range(layers))
    if architecture in ("nemotron_h", "nemotron_h_moe"):
        feed_forward = keys.per_layer("feed_forward_length", layers, (0,) * layers)
        return tuple(not kv and not ff for kv, ff in zip(kv_heads, feed_forward, strict=True))
    if architecture in HYBRID:
        return tuple(not kv for kv in kv_heads)
    return (False,) * layers


def state_bytes(keys: Keys, width: int, heads: tuple[int, ...], architecture: str, key_length: int) -> int:
    """Bytes of recurrent state per layer and sequence."""
    most_heads = max(heads, default=0)
    if keys.present("wkv.head_size"):
        shift = keys.number("token_shift_count", 2)
        elements = width * (shift + keys.number("wkv.head_size"))
    elif keys.present("shortconv.l_cache"):
        elements = width * max(0, keys.number("shortconv.l_cache") - 1)
    elif keys.present("kda.head_dim"):
        head = keys.number("kda.head_dim")
        kernel = keys.number("ssm.conv_kernel", 0) or 4
        elements = 3 * (kernel - 1) * most_heads * head + head * head * most_heads
    elif architecture == "minimax-01":
        elements = key_length * key_length * most_heads
    else:
        inner, state = keys.number("ssm.inner_size", 0), keys.number("ssm.state_size", 0)
        groups, kernel = keys.number("ssm.group_count", 0), keys.number("ssm.conv_kernel", 0)
        elements = max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner
    return elements * _STATE_ELEMENT


def layer_caches(
    keys: Keys,
    architecture: str,
    layers: int,
    width: int,
    heads: tuple[int, ...],
    kv_heads: tuple[int, ...],
    lengths: tuple[int, int],
) -> tuple[LayerCache, ...]:
    """What each layer keeps; `lengths` are those of a key and of a value."""
    if architecture in WITHOUT_CACHE:
        return ()
    windowed = windowed_layers(keys, architecture, layers)
    recurrent = recurrent_layers(keys, architecture, layers, kv_heads)
    state = state_bytes(keys, width, heads, architecture, lengths[0]) if any(recurrent) else 0
    trunk = layers - keys.number("nextn_predict_layers", 0, most=layers) if architecture in HYBRID else layers
    shared = keys.number("attention.shared_kv_layers", 0, most=layers) if architecture == "gemma4" else 0
    with_kv = min(layers - shared, KV_FROM_START.get(architecture, layers), trunk)
    # Sparse-attention models keep an index of the keys beside them.
    indexer = keys.number("attention.indexer.key_length", 0)
    latent = keys.present("attention.key_length_mla") and keys.present("attention.value_length_mla")
    short = (
        keys.number("attention.key_length_swa", lengths[0]),
        keys.number("attention.value_length_swa", lengths[1]),
    )
    found = []
    for layer in range(layers):
        key, value = short if windowed[layer] else lengths
        attends = layer < with_kv and (not recurrent[layer] or architecture == "falcon-h1")
        rows = kv_heads[layer] if attends else 0
        found.append(
            LayerCache(
                key_width=rows * key + (indexer if rows else 0),
                value_width=0 if latent else rows * value,
                windowed=windowed[layer],
                state_bytes=state if recurrent[layer] and layer < trunk else 0,
            )
        )
    return tuple(found)
