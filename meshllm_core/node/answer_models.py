"""What the node knows of models that are not loaded: on its disk, in the catalogue, at the hub."""

import asyncio
from typing import TYPE_CHECKING

from meshllm_core.api.schema_models import (
    Catalog,
    CatalogModel,
    FitMark,
    HubFile,
    HubModel,
    HubRepo,
    HubSearch,
    Library,
    LibraryModel,
    NoArguments,
    RepoArguments,
    SearchArguments,
)
from meshllm_core.models.catalog import CatalogEntry, best_of, catalog
from meshllm_core.models.fit import WEIGHTS_FRACTION, room_for
from meshllm_core.models.hub_search import FoundModel, estimated_bytes
from meshllm_core.models.library import KeptModel, kept_models
from meshllm_core.models.memory import read_memory
from meshllm_core.models.quants import WASTEFUL, RemoteModel, models_in, rank
from meshllm_core.models.resolve import free_disk
from meshllm_core.planner.where import Room, Where, where_fits
from meshllm_core.state.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from meshllm_core.node.answers import NodeParts

QUANTS_LIMIT = 200
"""Models of one repository that are told."""


class Rooms:
    """What the machines of the mesh offer a model now."""

    def __init__(self, parts: "NodeParts") -> None:
        client = parts.settings.client
        self.free = read_memory().available
        room = 0 if client else _room(self.free, parts.mesh.memory_lent())
        self.here = Room(parts.mesh.name, room)
        self.others: tuple[Room, ...] = ()
        if parts.mesh.session() is not None:
            machines = parts.mesh.splits().machines()[:-1]  # the last is this one
            self.others = tuple(
                Room(machine.name, _room(machine.free, machine.lent))
                for machine in machines
                if not machine.excluded
            )

    def mark(self, need: int) -> FitMark:
        """Where something fits that takes `need` bytes of memory; 0: nobody knows."""
        found: Where = where_fits(need, self.here, self.others)
        return FitMark(kind=found.kind, need_bytes=found.need, room_bytes=found.room, machines=found.machines)

    def best(self) -> CatalogEntry | None:
        """The best entry of the catalogue that fits on this machine, its limit considered."""
        return best_of(entry for entry in catalog() if self.mark(entry.memory_bytes).kind == "here")

    def mark_weights(self, size: int) -> FitMark:
        """The same for a file of which only the size is known: caches and buffers take a share too."""
        return self.mark(int(size / WEIGHTS_FRACTION))


def _room(free: int, lent: int) -> int:
    available, reserve = room_for(free, lent)
    return max(0, available - reserve)


async def answer_library(parts: "NodeParts", _: NoArguments) -> Library:
    """Everything on this disk. Raises StorageError."""
    cache = parts.downloads.cache
    kept, disk = await asyncio.to_thread(lambda: (kept_models(cache), free_disk(cache.root)))
    rooms = Rooms(parts)
    return Library(
        folder=str(cache.root),
        disk_free=disk,
        bytes_here=sum(model.bytes_here for model in kept if not model.comes_with),
        models=tuple(_library_model(model, rooms, parts.store.snapshot) for model in kept),
    )


def is_loaded(model: KeptModel, snapshot: NodeSnapshot) -> bool:
    """Whether this node serves it or loads it now, also before the engine has opened its files."""
    paths = {str(file) for file in model.files}
    return any(
        view.status != "failed"
        and (view.path in paths or (not view.path and (view.id == model.id or view.ref == model.ref)))
        for view in snapshot.models
    )


def _library_model(model: KeptModel, rooms: Rooms, snapshot: NodeSnapshot) -> LibraryModel:
    return LibraryModel(
        key=model.key,
        id=model.id,
        ref=model.ref,
        quant=model.quant,
        kind=model.kind,
        complete=model.complete,
        comes_with=model.comes_with,
        bytes_here=model.bytes_here,
        bytes_total=model.bytes_total,
        modified=model.modified,
        loaded=is_loaded(model, snapshot),
        used_by=model.used_by,
        fit=rooms.mark_weights(model.bytes_total),
    )


async def answer_catalog(parts: "NodeParts", _: NoArguments) -> Catalog:
    """The models worth offering, smallest first."""
    here = await asyncio.to_thread(_repos_here, parts)
    rooms = Rooms(parts)
    best = rooms.best()
    models = tuple(_catalog_model(entry, best, rooms, here) for entry in catalog())
    return Catalog(memory_free=rooms.free, machines=1 + len(rooms.others), models=models)


def _catalog_model(
    entry: CatalogEntry, best: CatalogEntry | None, rooms: Rooms, here: set[tuple[str, str]]
) -> CatalogModel:
    return CatalogModel(
        id=entry.id,
        ref=entry.id,
        repo=entry.repo,
        quant=entry.quant,
        bytes=entry.bytes,
        memory_bytes=entry.memory_bytes,
        parameters=entry.parameters,
        licence=entry.licence,
        about=entry.about,
        pick=entry is best,
        here=(entry.repo.lower(), entry.quant) in here,
        fit=rooms.mark(entry.memory_bytes),
    )


def _repos_here(parts: "NodeParts") -> set[tuple[str, str]]:
    whole = (model for model in parts.downloads.cache.models() if model.complete and model.repo)
    return {(model.repo.lower(), model.quant) for model in whole}


async def answer_search(parts: "NodeParts", asked: SearchArguments) -> HubSearch:
    """What the hub finds, most downloaded first. Raises HubUnreachable, DownloadFailed."""
    hub = parts.downloads.hub
    found = await asyncio.to_thread(hub.search, asked.query, asked.limit)
    rooms = Rooms(parts)
    return HubSearch(hub=hub.address, models=tuple(_hub_model(model, rooms) for model in found))


def _hub_model(model: FoundModel, rooms: Rooms) -> HubModel:
    """With the best quantization that fits on some machine, else the smallest one."""
    sensible = sorted(model.quants, key=lambda quant: quant in WASTEFUL)
    sizes = ((quant, estimated_bytes(model.parameters, quant)) for quant in sensible)
    marks = [(quant, size, rooms.mark_weights(size)) for quant, size in sizes]
    order = ("here", "other", "split", "nowhere", "unknown")
    quant, size, mark = min(
        marks, key=lambda each: (order.index(each[2].kind), each[1] if each[2].kind == "nowhere" else 0)
    )
    return HubModel(
        repo=model.repo,
        downloads=model.downloads,
        likes=model.likes,
        gated=model.gated,
        parameters=model.parameters,
        architecture=model.architecture,
        quants=model.quants,
        quant=quant,
        bytes=size,
        fit=mark,
    )


async def answer_repo(parts: "NodeParts", asked: RepoArguments) -> HubRepo:
    """The models of one repository with their true sizes. Raises ModelNotFound, HubUnreachable…"""
    listing = await asyncio.to_thread(parts.downloads.hub.list_files, asked.repo)
    here = await asyncio.to_thread(_repos_here, parts)
    models, _ = models_in(listing.files)
    models.sort(key=lambda model: (rank(model.quant), model.size, model.stem))
    rooms = Rooms(parts)
    files = tuple(_hub_file(listing.repo, model, models, rooms, here) for model in models[:QUANTS_LIMIT])
    return HubRepo(repo=listing.repo, commit=listing.commit, models=files)


def _hub_file(
    repo: str, model: RemoteModel, all_models: list[RemoteModel], rooms: Rooms, here: set[tuple[str, str]]
) -> HubFile:
    alone = model.quant and sum(other.quant == model.quant for other in all_models) == 1
    return HubFile(
        ref=f"{repo}:{model.quant}" if alone else f"hf://{repo}/{model.files[0].path}",
        name=model.stem,
        quant=model.quant,
        bytes=model.size,
        files=len(model.files),
        here=(repo.lower(), model.quant) in here,
        fit=rooms.mark_weights(model.size),
    )
