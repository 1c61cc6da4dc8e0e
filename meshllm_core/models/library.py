"""The models on this disk as a person sees them: what each is, who uses it, and how one is removed."""

from dataclasses import dataclass
from pathlib import Path

from meshllm_core.errors import ModelError, ModelNotFound, StorageError
from meshllm_core.models.cache import Cache, CachedModel, Kind
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.quants import quant_of
from meshllm_core.models.refs import DEFAULT
from meshllm_core.models.split import model_stem


@dataclass(frozen=True)
class KeptModel:
    """A model on this disk, whole or in part."""

    key: str
    """Names it among all others here; what `delete` takes."""
    id: str
    ref: str
    """What to write to load it."""
    repo: str
    """owner/name at the hub; empty: it does not come from there."""
    quant: str
    files: tuple[Path, ...]
    kind: Kind
    complete: bool
    bytes_here: int
    bytes_total: int
    modified: float
    """Seconds since the epoch."""
    used_by: tuple[int, ...]
    """Processes that have it loaded."""
    comes_with: bool = False
    """It is a part of meshllm's installation."""
    folder: Path = Path()


def kept_models(cache: Cache) -> tuple[KeptModel, ...]:
    """The model that comes with meshllm, then everything in the cache, by name; partial downloads too."""
    return (*_embedded(), *(_kept(cache, model) for model in cache.models()))


def delete(cache: Cache, key: str) -> KeptModel:
    """Removes one model that nothing uses. Raises ModelNotFound, StorageError."""
    kept = next((model for model in kept_models(cache) if model.key == key), None)
    if kept is None:
        raise ModelNotFound(
            f"There is no model {key[:200]!r} on this disk.",
            hint="See `meshllm models list`: it may be gone.",
        )
    if kept.comes_with:
        raise StorageError(
            f"{kept.id} is a part of meshllm's installation.", hint="It goes when meshllm is uninstalled."
        )
    if not kept.used_by and cache.is_locked(kept.folder):
        raise StorageError(
            f"{kept.id} is being downloaded.", hint="Cancel the download; that removes what has arrived."
        )
    cache.remove(_cached(cache, kept))
    return kept


def discard(cache: Cache, folder: Path) -> int:
    """Removes what has arrived of a download, unless it is whole or in use; returns the bytes freed."""
    for model in cache.models():
        unwanted = model.folder == folder and model.kind == "model" and not model.complete
        if unwanted and not model.used_by and not cache.is_locked(folder):
            return cache.remove(model)
    return 0


def _cached(cache: Cache, kept: KeptModel) -> CachedModel:
    return next(model for model in cache.models() if _key(cache, model) == kept.key)


def _key(cache: Cache, model: CachedModel) -> str:
    """The folder below the cache's own, or the first file of what somebody put there."""
    own = model.folder if model.repo or model.kind == "layers" else model.files[0]
    return own.relative_to(cache.root).as_posix()


def _kept(cache: Cache, model: CachedModel) -> KeptModel:
    return KeptModel(
        key=_key(cache, model),
        id=model.id,
        ref=model.ref,
        repo=model.repo,
        quant=model.quant,
        files=model.files,
        kind=model.kind,
        complete=model.complete,
        bytes_here=model.bytes_here,
        bytes_total=model.bytes_total,
        modified=model.modified,
        used_by=model.used_by,
        folder=model.folder,
    )


def _embedded() -> tuple[KeptModel, ...]:
    try:
        file = embedded_model()
    except ModelError:
        return ()
    stat = file.stat()
    return (
        KeptModel(
            key=DEFAULT,
            id=model_stem(file.name),
            ref=DEFAULT,
            repo="",
            quant=quant_of(file.name),
            files=(file,),
            kind="model",
            complete=True,
            bytes_here=stat.st_size,
            bytes_total=stat.st_size,
            modified=stat.st_mtime,
            used_by=(),
            comes_with=True,
            folder=file.parent,
        ),
    )
