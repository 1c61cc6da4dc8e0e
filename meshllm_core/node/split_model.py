"""A model that is to be spread over machines, wherever it is: a GGUF, a split set, a package of layers."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from meshllm_core.certify.gate import Artifact
from meshllm_core.certify.record import Certified
from meshllm_core.errors import ModelError
from meshllm_core.ids import ModelId
from meshllm_core.models.cache import Cache
from meshllm_core.models.certificates import hash_artifact
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.package_certificates import artifact_of, read_certificates
from meshllm_core.models.package_folder import PackageFolder
from meshllm_core.models.package_hub import HubPackage, stage_of_hub_package
from meshllm_core.models.package_manifest import Manifest
from meshllm_core.models.package_model import AnyPackage, describe_package
from meshllm_core.models.package_probes import ProbeFile
from meshllm_core.models.package_stage import PreparedStage, StageMaker, stage_of_file, stage_of_package
from meshllm_core.models.quants import quant_of
from meshllm_core.models.resolve import ResolvedModel
from meshllm_core.models.stage_source import StageSource, local_files, open_source
from meshllm_core.node.stage_source import hub_reference
from meshllm_core.planner.real_model import PlannedModel, planned_model


@dataclass(frozen=True)
class DivisibleModel:
    """What a split asks of a model."""

    id: ModelId
    facts: GgufFacts
    source: StageSource
    """Its heads; of a package only some, which say all that rules of cutting ask."""
    planned: PlannedModel
    prepare: Callable[[int, int, StageMaker], PreparedStage]
    """Makes the file of layers [start, end) here. Blocks; raises ModelError."""
    artifact: Callable[[], Artifact]
    """What certificates know it by. May read all of it; raises ModelError."""
    reference: str
    """At the hub, its revision a commit; empty when it is from elsewhere."""
    package: str = ""
    """SHA-256 of a package's manifest: it fixes every byte of every stage."""
    gives: bool = True
    """Whether stages for other machines can be made here: all layers are on this disk."""
    certificates: tuple[Certified, ...] = ()
    """That came with it, by whomever."""
    probes: ProbeFile | None = None
    notes: tuple[str, ...] = ()
    """For a person."""
    not_whole: str = ""
    """What to do where one machine can hold all of it, if it cannot simply be loaded; empty: it can."""


def of_files(model: ResolvedModel, cache: Cache) -> DivisibleModel:
    """A model that is on this disk. Raises ModelFileInvalid."""
    source = open_source(local_files(model.files[0]))
    return DivisibleModel(
        id=model.id,
        facts=model.facts,
        source=source,
        planned=planned_model(model.facts, source),
        prepare=lambda start, end, maker: stage_of_file(model.files[0], start, end, maker),
        artifact=lambda: artifact_of_files(model, cache),
        reference=hub_reference(cache, model.files[0]),
    )


def artifact_of_files(model: ResolvedModel, cache: Cache) -> Artifact:
    """What certificates know a model by that is on this disk; reads all of it. Raises ModelNotFound."""
    known = cache.source(model.files[0].parent)
    name = f"{known.repo}:{known.quant}" if known is not None else ""
    return Artifact(hash_artifact(model.files), name)


def of_package(package: AnyPackage, ref: str, maker: StageMaker) -> DivisibleModel:
    """A package, as `ref` named it. Fetches heads, no layer. Raises ModelError."""
    # Of a folder that somebody put there nothing is fetched, and nothing is written into it.
    with maker.holding(package.folder) if isinstance(package, HubPackage) else nullcontext():
        described = describe_package(package)
    manifest = package.manifest
    probes, note = _probes(package)
    try:
        certificates = tuple(record for _, record in read_certificates(package.folder, manifest))
        notes = [note]
    except ModelError as error:
        certificates, notes = (), [note, error.message]
    at_hub = isinstance(package, HubPackage)
    return DivisibleModel(
        id=described.id,
        facts=described.facts,
        source=described.source,
        planned=planned_model(
            described.facts, described.source, tensors=described.tensors, fingerprint=package.identity
        ),
        prepare=lambda start, end, maker: _stage(package, start, end, maker),
        artifact=lambda: _artifact(manifest),
        reference=package.reference if isinstance(package, HubPackage) else "",
        package=package.identity,
        gives=not at_hub,
        certificates=certificates,
        probes=probes,
        notes=tuple(note for note in notes if note),
        not_whole=_not_whole(manifest, ref, described.source.layers),
    )


def _stage(package: AnyPackage, start: int, end: int, maker: StageMaker) -> PreparedStage:
    if isinstance(package, HubPackage):
        return stage_of_hub_package(package.made_by(maker), start, end)
    return stage_of_package(package, start, end, maker)


def _artifact(manifest: Manifest) -> Artifact:
    source = manifest.source_model
    name = f"{source.repo}:{quant_of(source.path)}" if source.repo else ""
    return Artifact(artifact_of(manifest), name)


def _probes(package: AnyPackage) -> tuple[ProbeFile | None, str]:
    """The probes; else why those that are there cannot be used."""
    if isinstance(package, PackageFolder):
        try:
            path, note = package.probes(), ""
        except ModelError as error:
            path, note = None, error.message
    else:
        path, note = package.probes()
    if path is None:
        return None, note
    (file,) = local_files(path)
    return ProbeFile(file), note


def _not_whole(manifest: Manifest, ref: str, layers: int) -> str:
    source = manifest.source_model
    original = f"load what it was made from, {source.repo}, or " if source.repo else ""
    return (
        f"A package of layers is for several machines: {original}make one file of it there by `meshllm "
        f"package fetch {ref} --layers 0:{layers}` and load that."
    )
