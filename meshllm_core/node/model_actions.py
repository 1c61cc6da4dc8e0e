"""Actions about models that are not loaded: downloads, and what is on the disk."""

import asyncio
from typing import TYPE_CHECKING, Any

from meshllm_core.errors import StorageError
from meshllm_core.models.library import KeptModel, delete, kept_models
from meshllm_core.node.answer_models import is_loaded
from meshllm_core.state.download_events import DownloadRow

if TYPE_CHECKING:
    from meshllm_core.node.answers import NodeParts


async def act_on_models(parts: "NodeParts", name: str, arguments: dict[str, Any]) -> dict[str, object]:
    """One of these actions, with checked arguments. Raises MeshError."""
    downloads = parts.downloads
    match name:
        case "download":
            return _told(downloads.start(arguments["model"], any_size=arguments.get("any_size", False)))
        case "pause_download":
            return _told(downloads.pause(arguments["download"]))
        case "resume_download":
            return _told(downloads.resume(arguments["download"]))
        case "cancel_download":
            return _told(await downloads.cancel(arguments["download"])) | {"status": "cancelled"}
        case "delete_model":
            gone = await _delete(parts, arguments["model"])
            return {"model": gone.id, "bytes_freed": gone.bytes_here, "status": "deleted"}
        case _:
            raise AssertionError(f"action {name} is in the table and not in act_on_models()")


def _told(row: DownloadRow) -> dict[str, object]:
    return {"download": row.id, "model": row.model or row.ref, "status": row.state}


async def _delete(parts: "NodeParts", key: str) -> KeptModel:
    cache = parts.downloads.cache
    kept = await asyncio.to_thread(kept_models, cache)
    found = next((model for model in kept if model.key == key), None)
    # Its mark on the files comes only when the engine opens them.
    if found is not None and not found.comes_with and is_loaded(found, parts.store.snapshot):
        raise StorageError(f"{found.id} is loaded on this node.", hint="Unload it first, then delete it.")
    return await asyncio.to_thread(delete, cache, key)
