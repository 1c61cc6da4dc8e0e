"""A model from a description instead of a file: enough to plan one that nobody here has downloaded yet.

Needed are `layers` and `bytes`. What shapes the KV cache and the buffers is assumed where it is not said, and
the plan says that it was.
"""

from hashlib import sha256
from json import dumps

from meshllm_core.errors import ConfigError
from meshllm_core.models.facts import GgufFacts, LayerCache
from meshllm_core.models.keys import MAX_LAYERS
from meshllm_core.planner import quantities as q
from meshllm_core.planner.model import STUB_ROWS, SplitModel

NUMBERS = {
    "layers": (0, 1, MAX_LAYERS),
    "width": (8192, 1, 1 << 20),
    "heads": (64, 1, 4096),
    "kv_heads": (8, 0, 4096),
    "head_dim": (128, 1, 1 << 16),
    "vocabulary": (128_000, 8, 1 << 24),
    "context": (32_768, 1, 1 << 31),
    "feed_forward": (28_672, 1, 1 << 24),
    "sliding_window": (0, 0, 1 << 24),
    "window_period": (0, 0, MAX_LAYERS),
}
"""Key -> (assumed value, least, most)."""
SIZES = ("bytes", "active_bytes", "embedding_bytes", "output_bytes")
KEYS = ("name", *NUMBERS, *SIZES, "legal_cuts")
_SHAPING = ("width", "kv_heads", "head_dim")
"""Assumptions that change the plan enough to be told."""


def described(document: object, where: str) -> tuple[SplitModel, tuple[int, ...] | None]:
    """The model of a description, and its legal cuts (None: all). Raises ConfigError naming the key."""
    given = q.table(document, where)
    q.known(given, KEYS, where)
    for needed in ("layers", "bytes"):
        if needed not in given:
            raise ConfigError(
                f"{where} has no {needed}.", hint="A model needs layers and bytes.", param=needed
            )
    n = {
        name: q.count(given[name], f"{where}: {name}", least, most) if name in given else assumed
        for name, (assumed, least, most) in NUMBERS.items()
    }
    sizes = {name: q.size(given[name], f"{where}: {name}") for name in SIZES if name in given}
    total = sizes["bytes"]
    # Where the tables are not given: two of the model's own bytes per parameter, at most a tenth of it.
    table = min(sizes.get("embedding_bytes", n["vocabulary"] * n["width"] // 2), total // 10)
    output = min(sizes.get("output_bytes", table), total // 10)
    inside = total - table - output
    active = sizes.get("active_bytes", total)
    if not output <= active <= total:
        raise ConfigError(
            f"{where}: active_bytes is {active}, which is not between the head's {output} and bytes.",
            hint="It is what one token reads: for a mixture of experts those it uses, else leave it out.",
            param="active_bytes",
        )
    cuts = None
    if "legal_cuts" in given:
        listed = q.rows(given["legal_cuts"], f"{where}: legal_cuts", MAX_LAYERS)
        cuts = tuple(q.count(cut, f"{where}: legal_cuts", 1, n["layers"] - 1) for cut in listed)
    told = ", ".join(f"{name} {n[name]}" for name in _SHAPING if name not in given)
    return SplitModel(
        name=q.text(given.get("name", "the model"), f"{where}: name"),
        facts=_facts(n, total),
        layer_bytes=_shares(inside, n["layers"]),
        active_bytes=_shares(min(inside, active - output), n["layers"]),
        first_bytes=0,
        last_bytes=output,
        shared_bytes=0,
        stub_bytes=STUB_ROWS * (table + output) // n["vocabulary"],
        row_width=n["width"],
        fingerprint=sha256(dumps(given, sort_keys=True).encode()).hexdigest(),
        notes=(f"assumed, as the description does not say: {told}",) if told else (),
    ), cuts


def _shares(total: int, layers: int) -> tuple[int, ...]:
    """`total` in equal whole parts, the remainder on the first layers."""
    each, rest = divmod(total, layers)
    return tuple(each + (layer < rest) for layer in range(layers))


def _facts(n: dict[str, int], total: int) -> GgufFacts:
    layers, wide = n["layers"], n["kv_heads"] * n["head_dim"]
    # As in most of llama.cpp's own patterns the last layer of each period sees everything.
    window, period = n["sliding_window"], n["window_period"]
    slides = [bool(window) and (not period or (layer + 1) % period != 0) for layer in range(layers)]
    return GgufFacts(
        architecture="described",
        name="",
        layers=layers,
        width=n["width"],
        vocabulary=n["vocabulary"],
        context_trained=n["context"],
        heads=(n["heads"],) * layers,
        kv_heads=(n["kv_heads"],) * layers,
        key_length=n["head_dim"],
        value_length=n["head_dim"],
        feed_forward=n["feed_forward"],
        sliding_window=n["sliding_window"],
        caches=tuple(LayerCache(wide, wide, windowed=slide) for slide in slides),
        parameters=0,
        tensor_bytes=total,
        file_bytes=total,
        quantization="",
        has_chat_template=False,
        pooling=0,
        embeddings=False,
        recurrent=False,
        files=(),
    )
