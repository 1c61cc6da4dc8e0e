"""What planning knows of a model: from its file where that is here, else from the catalogue's figures."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from meshllm_core.api.schema_plan import PlanModel, Source
from meshllm_core.errors import ModelNotFound
from meshllm_core.models.cache import Cache, CachedModel
from meshllm_core.models.catalog import CatalogEntry, catalog
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.paths import Paths
from meshllm_core.planner.describe import described
from meshllm_core.planner.memory import every_range
from meshllm_core.planner.real_model import PlannedModel, planned_model
from meshllm_core.state.snapshot import ModelView

KEPT = 8
"""Models whose tables are kept: sliders ask for the same one many times in a row."""
LISTED = 256
"""Models that a picker is told."""
_HEAD_DIM = 64


@dataclass(frozen=True)
class FoundModel:
    """A model that can be planned."""

    ref: str
    """What `load` takes."""
    source: Source
    bytes: int
    planned: PlannedModel
    resolved: ResolvedModel | None
    """None: it is not on this disk."""


@dataclass
class PlanSources:
    """Finds models by what people write. Blocks while it reads; one call at a time."""

    paths: Paths
    _read: OrderedDict[tuple[object, ...], PlannedModel] = field(default_factory=OrderedDict)

    def find(self, ref: str, loaded: tuple[ModelView, ...]) -> FoundModel:
        """The model, whose facts are read but for what is in none of its files. Raises ModelError."""
        view = next((view for view in loaded if ref in (view.id, view.ref)), None)
        source: Source = "disk" if view is None or view.status == "failed" else "loaded"
        if view is not None and view.path and Path(view.path).is_file():
            return self._of_file(Path(view.path), view.ref, source)
        if view is not None:
            ref = view.ref  # A split has no single file of its own here; what it was made from is.
        entry = _entry(ref)
        known = Cache(self.paths.models).models() if ref != "default" else ()
        here = _here(ref, entry, known)
        if here is not None:
            return self._of_file(here.files[0], here.ref, source)
        if ref == "default":
            return self._of_file(embedded_model(), ref, source)
        path = Path(ref).expanduser()
        if path.is_absolute() and path.is_file():
            return self._of_file(path, ref, source)
        if entry is not None:
            return FoundModel(entry.id, "catalog", entry.bytes, _planned_entry(entry), None)
        raise ModelNotFound(
            f"{ref[:200]!r} cannot be planned: it is not on this disk, and the catalogue does not know it.",
            hint="Fetch it with `meshllm models download`, or describe it: `meshllm plan NAME --layers 94 "
            "--bytes 132GB`.",
        )

    def _of_file(self, path: Path, ref: str, source: Source) -> FoundModel:
        facts = inspect_model(path)
        files = [(file, file.stat()) for file in facts.files]
        key = tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in files)
        planned = self._read.pop(key, None)
        if planned is None:
            planned = planned_model(facts, open_source(local_files(path)))
        self._read[key] = planned
        while len(self._read) > KEPT:
            self._read.popitem(last=False)
        resolved = ResolvedModel(facts.model_id, ref, facts.files, facts, "")
        return FoundModel(ref, source, facts.file_bytes, planned, resolved)

    def listed(self, loaded: tuple[ModelView, ...]) -> tuple[PlanModel, ...]:
        """Everything that can be picked: loaded models, this disk, the catalogue; each once."""
        found: dict[str, PlanModel] = {}
        for model in self._all(loaded):
            found.setdefault(model.name.lower(), model)
        return tuple(found.values())[:LISTED]

    def _all(self, loaded: tuple[ModelView, ...]) -> Iterator[PlanModel]:
        for view in loaded:
            if view.path:
                yield PlanModel(
                    name=view.id,
                    ref=view.id,
                    source="disk" if view.status == "failed" else "loaded",
                    bytes=view.file_bytes,
                    parameters=max(0, view.parameters),
                )
        here = [model for model in Cache(self.paths.models).models() if model.complete and model.files]
        for model in here:
            if model.kind == "model":
                yield PlanModel(name=model.id, ref=model.ref, source="disk", bytes=model.bytes_total)
        try:
            default = embedded_model()
            yield PlanModel(name=default.stem, ref="default", source="disk", bytes=default.stat().st_size)
        except (ModelNotFound, OSError):
            pass  # The model that comes with meshllm is one offer among others.
        for entry in catalog():
            if _here(entry.id, entry, tuple(here)) is None:
                yield PlanModel(
                    name=entry.id,
                    ref=entry.id,
                    source="catalog",
                    bytes=entry.bytes,
                    parameters=entry.parameters,
                )


def _entry(ref: str) -> CatalogEntry | None:
    wanted = ref.lower()
    return next((entry for entry in catalog() if wanted in (entry.id, str(entry.ref).lower())), None)


def _here(ref: str, entry: CatalogEntry | None, known: tuple[CachedModel, ...]) -> CachedModel | None:
    """The whole model on this disk that is meant, if there is one."""
    names = {ref.lower()} | ({f"{entry.repo}:{entry.quant}".lower()} if entry is not None else set())
    for model in known:
        if not model.complete or model.kind != "model" or not model.files:
            continue
        own = (model.id.lower(), model.repo.lower(), model.ref.lower(), f"{model.repo}:{model.quant}".lower())
        if names & set(filter(None, own)):
            return model
    return None


def _planned_entry(entry: CatalogEntry) -> PlannedModel:
    """An entry of the catalogue as the planner sees it: all layers alike, cuts not yet checked."""
    wide = entry.kv_bytes_per_token // (entry.layers * 4)  # Keys and values, two bytes each.
    head_dim = _HEAD_DIM if wide % _HEAD_DIM == 0 else wide
    share = entry.active_parameters / entry.parameters if entry.active_parameters else 1.0
    model, _ = described(
        {
            "name": entry.id,
            "layers": entry.layers,
            "bytes": entry.bytes,
            "active_bytes": int(entry.bytes * share),
            "width": entry.width,
            "kv_heads": wide // head_dim,
            "head_dim": head_dim,
            "heads": max(1, entry.width // head_dim),
            "vocabulary": entry.vocabulary,
            "context": entry.context,
            "feed_forward": entry.width * 4,
        },
        entry.id,
    )
    return PlannedModel(model, every_range, "")
