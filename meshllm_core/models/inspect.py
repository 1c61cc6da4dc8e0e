"""From a path to GgufFacts: gathers a split set, checks that it is whole and that llama.cpp knows it."""

from difflib import get_close_matches
from pathlib import Path

from meshllm_core.errors import ModelFileInvalid, ModelNotFound
from meshllm_core.models.architectures import (
    BINDING,
    ENCODERS,
    HYBRID,
    KNOWN,
    NEEDS_TARGET,
    NOT_LANGUAGE,
    RECURRENT,
)
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.ggml_types import FILE_TYPES, GUESSED_FILE_TYPE
from meshllm_core.models.gguf_file import GgufHead, read_head
from meshllm_core.models.keys import MAX_LAYERS, Keys
from meshllm_core.models.layers import layer_caches, sliding_window
from meshllm_core.models.split import parse_split
from meshllm_core.models.units import printable


def inspect_model(path: Path) -> GgufFacts:
    """The facts of a model, given its file or any member of its split set.

    Raises ModelNotFound (no file, a member missing) and ModelFileInvalid (damaged, not loadable).
    """
    files = model_files(path)
    heads = tuple(read_head(file) for file in files)
    architecture = _architecture(heads[0])
    keys = Keys(heads[0], architecture)
    _check_split(heads, keys)
    return _facts(heads, keys, architecture)


def facts_of(head: GgufHead) -> GgufFacts:
    """The facts of a model that one head describes. Raises ModelFileInvalid."""
    architecture = _architecture(head)
    return _facts((head,), Keys(head, architecture), architecture)


def model_files(path: Path) -> tuple[Path, ...]:
    """The files of the model that `path` belongs to, in order. Raises ModelNotFound naming a missing one."""
    split = parse_split(path.name)
    if split is None:
        return (path,)
    files = tuple(path.with_name(split.member(number)) for number in range(1, split.count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        names = f"{missing[0]}{more} of {split.count} files"
        raise ModelNotFound(
            f"The split model {split.stem} is not complete, missing: {names}.",
            hint=f"Put every part into {path.parent}, under its own name.",
        )
    return files


def _architecture(head: GgufHead) -> str:
    name = head.path.name
    kind = head.values.get("general.type", "model")
    architecture = head.values.get("general.architecture")
    if kind in ("adapter", "imatrix"):
        raise ModelFileInvalid(f"{name} is an {kind}, not a model.", hint="Load the base model instead.")
    if not isinstance(architecture, str) or not architecture:
        raise ModelFileInvalid(
            f"{name} does not say its architecture.", hint="It is damaged, or not a language model."
        )
    if architecture in NOT_LANGUAGE or kind == "mmproj":
        raise ModelFileInvalid(
            f"{name} is a part for images or sound ({architecture}), not a language model.",
            hint="Load the model file that it accompanies.",
        )
    if architecture in NEEDS_TARGET:
        raise ModelFileInvalid(
            f"{name} is a draft head ({architecture}) and cannot answer by itself.",
            hint="Load the model that it was made for.",
        )
    if architecture not in KNOWN:
        near = get_close_matches(architecture, KNOWN, 1, 0.8)
        raise ModelFileInvalid(
            f"{name} has the architecture {architecture[:60]!r}, which llama.cpp ({BINDING}) does not know"
            f"{f' (it knows {near[0]!r})' if near else ''}.",
            hint="Update meshllm, or choose another model.",
        )
    return architecture


def _check_split(heads: tuple[GgufHead, ...], keys: Keys) -> None:
    declared = heads[0].values.get("split.count", 1)
    if isinstance(declared, int) and declared > 1 and declared != len(heads):
        raise ModelFileInvalid(
            f"{heads[0].path.name} is one part of {declared}, but its name does not say so.",
            hint="Give the parts back their names: …-00001-of-0000N.gguf.",
        )
    total = heads[0].values.get("split.tensors.count")
    found = sum(len(head.tensors) for head in heads)
    if len(heads) > 1 and isinstance(total, int) and total != found:
        raise keys.invalid(f"its parts hold {found} tensors together instead of {total}")
    if found == 0:
        raise ModelFileInvalid(
            f"{heads[0].path.name} holds no tensors.", hint="It is a vocabulary, not a model."
        )


def _facts(heads: tuple[GgufHead, ...], keys: Keys, architecture: str) -> GgufFacts:
    head = heads[0]
    layers = keys.number("block_count", least=1, most=MAX_LAYERS)
    width = keys.number("embedding_length", least=1)
    query_heads = keys.per_layer("attention.head_count", layers, (0,) * layers)
    kv_heads = keys.per_layer("attention.head_count_kv", layers, query_heads)
    usual = width // query_heads[0] if query_heads[0] else 0
    lengths = keys.number("attention.key_length", usual), keys.number("attention.value_length", usual)
    pooling = keys.number("pooling_type", 0, most=16)
    tensors = [tensor for each in heads for tensor in each.tensors]
    has_template = any(key.startswith("tokenizer.chat_template") for key in head.values)
    return GgufFacts(
        architecture=architecture,
        name=printable(keys.text("general.name")),
        layers=layers,
        width=width,
        vocabulary=_vocabulary(heads, keys),
        context_trained=keys.number("context_length", least=1, most=1 << 31),
        heads=query_heads,
        kv_heads=kv_heads,
        key_length=lengths[0],
        value_length=lengths[1],
        feed_forward=_feed_forward(keys, width),
        sliding_window=sliding_window(keys, architecture, layers),
        caches=layer_caches(keys, architecture, layers, width, query_heads, kv_heads, lengths),
        parameters=sum(tensor.elements for tensor in tensors),
        tensor_bytes=sum(tensor.nbytes for tensor in tensors),
        file_bytes=sum(each.file_bytes for each in heads),
        quantization=_quantization(heads),
        has_chat_template=has_template,
        pooling=pooling,
        embeddings=pooling in (1, 2, 3) or architecture in ENCODERS,
        recurrent=architecture in RECURRENT or architecture in HYBRID,
        files=tuple(each.path for each in heads),
    )


def _vocabulary(heads: tuple[GgufHead, ...], keys: Keys) -> int:
    listed = keys.count("tokenizer.ggml.tokens")
    if listed:
        return listed
    if keys.present("vocab_size"):
        return keys.number("vocab_size")
    table = next((t for head in heads for t in head.tensors if t.name == "token_embd.weight"), None)
    return table.shape[1] if table is not None and len(table.shape) > 1 else 0


def _feed_forward(keys: Keys, width: int) -> int:
    """Elements of the widest feed-forward activation of a token, with every expert it uses."""
    dense = keys.number("feed_forward_length", 0)
    used = keys.number("expert_used_count", 0, most=1024)
    expert = keys.number("expert_feed_forward_length", dense if used else 0)
    # The experts' outputs, each as wide as the model, stand side by side before they are added up.
    return max(dense, used * max(expert, width))


def _quantization(heads: tuple[GgufHead, ...]) -> str:
    code = heads[0].values.get("general.file_type")
    if isinstance(code, int) and (name := FILE_TYPES.get(code & ~GUESSED_FILE_TYPE)):
        return name
    bytes_by_type: dict[str, int] = {}
    for head in heads:
        for tensor in head.tensors:
            bytes_by_type[tensor.type.name] = bytes_by_type.get(tensor.type.name, 0) + tensor.nbytes
    return max(bytes_by_type, key=lambda kind: bytes_by_type[kind], default="")
