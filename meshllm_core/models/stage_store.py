"""Stages that other machines sent, beside the layers that this one fetched or cut: one cache for all."""

from pathlib import Path

from meshllm_core.models.cache import Cache, Source, SourceFile
from meshllm_core.models.package_stage import stage_path


def received_path(cache: Cache, sha256: str, layers: tuple[int, int]) -> Path:
    """Where a stage of another machine's model belongs. `sha256` (hex) is the file's. Writes nothing."""
    return stage_path(cache.layers_folder("", f"received {sha256}"), *layers)


def record_received(cache: Cache, target: Path, sha256: str, size: int, *, model: str, sender: str) -> None:
    """Makes the folder of `received_path`, so that the stage is listed and can be removed.

    `size` in bytes, `model` and `sender` names for people. Raises StorageError.
    """
    cache.record_source(
        target.parent,
        Source(
            repo="",
            quant="",
            revisions={},
            files=(SourceFile(name=target.name, path=f"sent by {sender}", size=size, sha256=sha256),),
            kind="layers",
            id=model,
            bytes_total=size,
        ),
    )
