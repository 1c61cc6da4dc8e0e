"""Models as rows for a person and as JSON for a program."""

from typing import Any

from meshllm_core.cli import text
from meshllm_core.models.cache import CachedModel, stages_in
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.library import KeptModel
from meshllm_core.models.locate import Located

_FACTS = (
    "architecture",
    "name",
    "quantization",
    "parameters",
    "layers",
    "width",
    "vocabulary",
    "context_trained",
    "file_bytes",
    "tensor_bytes",
    "has_chat_template",
    "embeddings",
)


def document(model: CachedModel | KeptModel) -> dict[str, Any]:
    """A model on this disk, as JSON."""
    return {
        "id": model.id,
        "ref": model.ref,
        "files": [str(file) for file in model.files],
        "kind": model.kind,
        "complete": model.complete,
        "bytes_here": model.bytes_here,
        "bytes_total": model.bytes_total,
        "used_by": list(model.used_by),
        "stages": [
            {"layer_start": first, "layer_end": end, "bytes": size}
            for first, end, size in stages_in(model.files)
        ],
    }


def state(model: CachedModel | KeptModel) -> str:
    """How much of it is here."""
    if model.complete:
        return "whole"
    if model.kind == "layers":
        return "some layers"
    return f"{100 * model.bytes_here // max(1, model.bytes_total)} % downloaded"


def stage_rows(model: CachedModel | KeptModel) -> list[tuple[str, str, str, str, str]]:
    """A row for each stage of a model that is ready to load."""
    return [
        (f"  layers {first} to {end - 1}", "", text.size(size), "stage", users(model))
        for first, end, size in stages_in(model.files)
    ]


def users(model: CachedModel | KeptModel) -> str:
    """The processes that have it loaded."""
    return ", ".join(map(str, model.used_by)) or "–"


def facts_document(located: Located, facts: GgufFacts | None) -> dict[str, Any]:
    """What a model is; `facts` are None when it is not here."""
    known: dict[str, Any] = {"id": located.id, "ref": located.ref}
    if facts is None:
        return known | {"here": False, "download_bytes": located.download_bytes, "note": located.note}
    shown = {name: getattr(facts, name) for name in _FACTS}
    return known | {"here": True, **shown, "files": [str(file) for file in facts.files]}


def cell(value: object) -> str:
    """A value for a person."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
