"""From a reference to a place: a file that is here, or files of the hub that would have to come.

Nothing is downloaded and at most the hub's list of files is asked for.
"""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from meshllm_core.errors import HubUnreachable, ModelError, ModelFileInvalid, ModelNotFound, ModelTooLarge
from meshllm_core.ids import ModelId
from meshllm_core.models.cache import Cache, CachedModel
from meshllm_core.models.catalog import CatalogEntry, catalog, entry_named, pick
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.fit import reserve_for, weights_room
from meshllm_core.models.hub import Hub
from meshllm_core.models.inspect import inspect_model, model_files
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.quants import RemoteModel, best_that_fits, models_in
from meshllm_core.models.refs import AutoRef, CatalogRef, DefaultRef, FileRef, HubRef, parse_ref
from meshllm_core.models.split import model_stem
from meshllm_core.models.units import show_bytes

AS_GOOD = 0.9
"""A model here of at least this share of the pick's parameters is used instead of a download."""
_SPLIT = (
    "With --split it is spread over machines; `meshllm package fetch` makes one file of any of its layers."
)


@dataclass(frozen=True)
class Remote:
    """Files at the hub."""

    repo: str
    revision: str
    commit: str
    model: RemoteModel


@dataclass(frozen=True)
class Located:
    """Where a model is."""

    id: ModelId
    ref: str
    """As it was asked for."""
    files: tuple[Path, ...] = ()
    """Here already; empty if it has to be downloaded."""
    remote: Remote | None = None
    """What has to be downloaded."""
    note: str = ""
    """What was chosen and why, for a person; empty if nothing was."""

    @property
    def download_bytes(self) -> int:
        """Bytes of the files at the hub; 0 if the model is here."""
        return self.remote.model.size if self.remote else 0


def locate(
    ref: str, *, cache: Cache, hub: Hub, memory_available: int | None, refresh: bool = False
) -> Located:
    """Finds a model. `memory_available` (bytes) guides choices and refuses early; None: neither.

    A model of the hub that is here is used without asking the hub, unless `refresh`.
    Raises ModelNotFound, ModelTooLarge, HubUnreachable, DownloadFailed.
    """
    parsed = parse_ref(ref, catalog={entry.id for entry in catalog()})
    match parsed:
        case FileRef(path):
            try:
                return _local(ref, path)
            except OSError as error:
                raise ModelNotFound(
                    f"{path} cannot be read: {error.strerror}.", hint="Check that it is a file you may read."
                ) from error
        case DefaultRef():
            return _local(ref, embedded_model())
        case HubRef():
            return _at_hub(ref, parsed, cache, hub, memory_available, refresh=refresh)
        case CatalogRef(name):
            return _at_hub(ref, entry_named(name).ref, cache, hub, memory_available, refresh=refresh)
        case AutoRef():
            return _auto(ref, cache, hub, memory_available or 0)


def _local(ref: str, path: Path, note: str = "") -> Located:
    if (path / MANIFEST_NAME).is_file():
        raise ModelFileInvalid(f"{path} holds a model as a package of layers, not as one file.", hint=_SPLIT)
    if path.is_dir():
        raise ModelNotFound(f"{path} is a folder.", hint="Name the .gguf file in it.")
    if not path.is_file() and len(path.parts) == 3 and not path.is_absolute():
        raise ModelNotFound(
            f"There is no file {path}.", hint=f"For a file of the hub write hf://{path.as_posix()}."
        )
    if path.is_symlink() and not path.exists():
        raise ModelNotFound(
            f"{path} is a link to {path.readlink()}, which is not there.",
            hint="Give the file's own path, or mend the link.",
        )
    if path.exists() and not path.is_file():
        raise ModelNotFound(f"{path} is not a file but a device or a pipe.", hint="Name a .gguf file.")
    if not path.is_file():
        raise ModelNotFound(f"There is no file {path}.", hint=_beside(path))
    return Located(ModelId(model_stem(path.name)), ref, model_files(path.absolute()), note=note)


def _beside(path: Path) -> str:
    """What a person may have meant: the likeliest files of that folder first."""
    names = sorted(other.name for other in path.parent.glob("*.gguf") if other.is_file())
    near = get_close_matches(path.name, names, 3, 0.3) or names[:3]
    return f"There: {', '.join(near)}." if near else "Check the spelling."


def _cached(ref: str, model: CachedModel, note: str = "") -> Located:
    return Located(model.id, ref, model.files, note=note)


def _at_hub(
    ref: str, wanted: HubRef, cache: Cache, hub: Hub, memory_available: int | None, *, refresh: bool
) -> Located:
    here = cache.find_source(wanted.repo, wanted.quant, wanted.revision, wanted.file)
    if here is not None and not refresh:
        return _cached(ref, here)
    listing = hub.list_files(wanted.repo, wanted.revision)
    if any(file.path == MANIFEST_NAME for file in listing.files):
        raise ModelFileInvalid(
            f"{wanted.repo} holds a model as a package of layers, not as one file.",
            hint=_SPLIT,
        )
    models, broken = models_in(listing.files)
    chosen = _choose(wanted, models, broken, memory_available)
    note = ""
    if not wanted.quant and not wanted.file and len(models) > 1:
        fitting = f" fits in {show_bytes(memory_available)} of free memory and" if memory_available else ""
        note = f"{chosen.quant or chosen.stem}{fitting} is the best of {len(models)} in {wanted.repo}."
    remote = Remote(wanted.repo, wanted.revision, listing.commit, chosen)
    return Located(ModelId(chosen.stem), ref, remote=remote, note=note)


def _choose(
    wanted: HubRef, models: list[RemoteModel], broken: list[str], memory_available: int | None
) -> RemoteModel:
    if not models:
        missing = f" Parts of {broken[0]} are missing there." if broken else ""
        raise ModelNotFound(
            f"{wanted.repo} holds no GGUF model.{missing}",
            hint="Look for a repository of the same model whose name ends in -GGUF.",
        )
    if wanted.file:
        stem = model_stem(PurePosixPath(wanted.file).name)
        chosen = next((m for m in models if any(file.path == wanted.file for file in m.files)), None)
        chosen = chosen or next((m for m in models if m.stem == stem), None)
        if chosen is None:
            raise ModelNotFound(
                f"{wanted.repo} has no file {wanted.file}.", hint=f"It has: {_names(models)}."
            )
        return _within(chosen, memory_available)
    if wanted.quant:
        same = [model for model in models if model.quant == wanted.quant]
        if not same:
            raise ModelNotFound(f"{wanted.repo} has no {wanted.quant}.", hint=f"It has: {_names(models)}.")
        # Variants of one quantization: the plainest name is the usual one.
        return _within(min(same, key=lambda m: (len(m.stem), m.stem)), memory_available)
    room = weights_room(memory_available) if memory_available is not None else 1 << 62
    fitting = best_that_fits(models, room)
    if fitting is None:
        smallest = min(models, key=lambda model: model.size)
        return _within(smallest, memory_available, of=len(models))
    return fitting


def _names(models: list[RemoteModel]) -> str:
    names = sorted({model.quant or model.stem for model in models})
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more


def _within(model: RemoteModel, memory_available: int | None, of: int = 0) -> RemoteModel:
    """The model, unless its weights alone leave no room: then it is refused before it is downloaded."""
    if memory_available is None or model.size <= memory_available - reserve_for(memory_available):
        return model
    which = f"The smallest of {of}, {model.stem}," if of else model.stem
    raise ModelTooLarge(
        f"{which} is {show_bytes(model.size)} and does not fit: {show_bytes(memory_available)} are free.",
        hint="Choose a smaller quantization or a smaller model: `meshllm models recommended` says what fits.",
    )


def _auto(ref: str, cache: Cache, hub: Hub, memory_available: int) -> Located:
    best = pick(memory_available)
    here = _best_here(cache, memory_available)
    free = show_bytes(memory_available)
    if best is None:
        if here is not None:
            return _cached(ref, here, f"{here.id} is the best model here that fits in {free}.")
        return _local(ref, embedded_model(), f"Only the model that comes with meshllm fits in {free}.")
    if here is not None and _parameters(here) >= AS_GOOD * best.parameters:
        return _cached(ref, here, f"{here.id} is here already and suits {free} of free memory.")
    return _fetch_best(ref, best, here, cache, hub, memory_available)


def _fetch_best(
    ref: str,
    best: CatalogEntry,
    here: CachedModel | None,
    cache: Cache,
    hub: Hub,
    memory_available: int,
) -> Located:
    try:
        found = _at_hub(ref, best.ref, cache, hub, memory_available, refresh=False)
    except HubUnreachable as error:
        why = f"{best.id} would suit this machine, but it cannot be fetched: {error.message}"
        if here is not None:
            return _cached(ref, here, f"{why} {here.id} is the best model here.")
        return _local(ref, embedded_model(), f"{why} The model that comes with meshllm is used instead.")
    size = show_bytes(found.download_bytes)
    note = f"{best.id} is the best model that fits in {show_bytes(memory_available)} of free memory"
    return replace(found, note=f"{note}; it is a download of {size}." if found.remote else f"{note}.")


def _best_here(cache: Cache, memory_available: int) -> CachedModel | None:
    room = weights_room(memory_available)
    whole = [model for model in cache.models() if model.complete and model.bytes_total <= room]
    return max(whole, key=_parameters, default=None)


def _parameters(model: CachedModel) -> int:
    """Parameters of a model here: from the catalogue, else from its file; 0 if that cannot chat."""
    for entry in catalog():
        if (entry.repo.lower(), entry.quant) == (model.repo.lower(), model.quant):
            return entry.parameters
    try:
        facts = inspect_model(model.files[0])
    except ModelError:
        return 0
    return facts.parameters if facts.has_chat_template and not facts.embeddings else 0
