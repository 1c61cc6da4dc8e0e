"""Reads what a person writes to name a layer package or a model to take layers from. Pure.

What names a model names its layers too; Mesh LLM also writes `hf://owner/repo:revision`.
"""

import re
from pathlib import Path

from meshllm_core.errors import ModelNotFound
from meshllm_core.models.catalog import catalog, entry_named
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.quants import known_quant
from meshllm_core.models.refs import AutoRef, CatalogRef, DefaultRef, FileRef, HubRef, parse_ref

_WITH_REVISION = re.compile(r"(hf://[^/:@\s]+/[^/:@\s]+):([^/:@\s]+)", re.IGNORECASE)


def parse_source(text: str) -> Path | HubRef:
    """A path on this disk, or a place at the hub. Raises ModelNotFound."""
    colon = _WITH_REVISION.fullmatch(text.strip())
    if colon and known_quant(colon[2]) is None:
        text = f"{colon[1]}@{colon[2]}"
    match parse_ref(text, catalog={entry.id for entry in catalog()}):
        case FileRef(path):
            return path
        case HubRef() as found:
            return found
        case CatalogRef(name):
            return entry_named(name).ref
        case DefaultRef():
            return embedded_model()
        case AutoRef():
            raise ModelNotFound("auto names no model to take layers from.", hint="Name the model.")
