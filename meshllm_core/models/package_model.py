"""What planning needs to know of a packaged model: from its manifest, the shared fragments and one layer.

No layer but the last one's head is looked at: whoever plans a split may be on a disk that the model fits on
as little as in its memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from meshllm_core.ids import ModelId
from meshllm_core.models.facts import GgufFacts
from meshllm_core.models.inspect import facts_of
from meshllm_core.models.package_folder import PackageFolder, check_layers
from meshllm_core.models.package_fragment import EMBEDDINGS, METADATA, OUTPUT, Role, layer_role, role_of
from meshllm_core.models.package_hub import HubPackage
from meshllm_core.models.package_manifest import Manifest
from meshllm_core.models.package_stage import check_roles
from meshllm_core.models.stage_source import SourceFile, StageSource, local_file, open_source

AnyPackage = PackageFolder | HubPackage
MODEL_NAME = 256
"""Longest public name, in characters; what a manifest calls its model may be longer."""


@dataclass(frozen=True)
class PackagedModel:
    """A model of which only some fragments were looked at."""

    id: ModelId
    facts: GgufFacts
    """Bytes are the manifest's and exact; parameters are counted in one layer and scaled by the bytes."""
    source: StageSource
    """Key/values, the tables at both ends, and the last layer."""
    tensors: tuple[tuple[str, int], ...]
    """(name, bytes) of all layers: of the last layer's kind, in the sizes that the manifest says."""


def describe_package(package: AnyPackage) -> PackagedModel:
    """Reads the heads. Of a package at the hub its folder's lock must be held. Raises ModelError."""
    manifest = package.manifest
    (metadata,) = _opened(package, [METADATA]).values()
    whole = open_source([metadata])
    check_layers(whole, manifest)
    last = layer_role(whole.layers - 1)
    files = {METADATA: metadata, **_opened(package, [EMBEDDINGS, last, OUTPUT])}
    source = open_source(list(files.values()))
    check_roles(source, files)
    tensors = (*_ends(source), *_layers(source, manifest, last))
    elements = {name: found.tensor.elements for name, found in source.tensors.items()}
    ends = sum(count for name, count in elements.items() if role_of(name) != last)
    inside = sum(count for name, count in elements.items() if role_of(name) == last)
    own = sum(size for name, size in tensors if role_of(name) not in (None, EMBEDDINGS, OUTPUT))
    scale = inside / max(1, _own_bytes(manifest, last))
    total = sum(size for _, size in tensors)
    head = replace(source.head, tensors=tuple(found.tensor for found in source.tensors.values()))
    name = manifest.model_id[:MODEL_NAME]
    facts = replace(
        facts_of(head),
        files=(Path(f"{name.replace('/', '_')}.gguf"),),
        parameters=ends + int(own * scale),
        tensor_bytes=total,
        file_bytes=total,
    )
    return PackagedModel(ModelId(name), facts, source, tensors)


def _opened(package: AnyPackage, roles: list[Role]) -> dict[Role, SourceFile]:
    """Fragments to read from; of those at the hub no more comes than is read, but for the small first one."""
    if isinstance(package, HubPackage):
        package.fetch([role for role in roles if role == METADATA])
        return {role: package.file(role) for role in roles}
    artifacts = {role: package.manifest.artifact(role) for role in roles}
    paths = {
        role: package.checked(artifact) if role == METADATA else package.path(artifact)
        for role, artifact in artifacts.items()
    }
    return {role: local_file(path) for role, path in paths.items()}


def _ends(source: StageSource) -> Iterator[tuple[str, int]]:
    for name, found in source.tensors.items():
        if role_of(name) in (None, EMBEDDINGS, OUTPUT):
            yield name, found.tensor.nbytes


def _layers(source: StageSource, manifest: Manifest, last: Role) -> Iterator[tuple[str, int]]:
    sizes = {name: f.tensor.nbytes for name, f in source.tensors.items() if role_of(name) == last}
    experts = sum(size for name, size in sizes.items() if "_exps" in name) / max(1, sum(sizes.values()))
    for layer in range(manifest.layer_count):
        own = _own_bytes(manifest, layer_role(layer))
        routed = int(own * experts)
        yield f"blk.{layer}.weight", own - routed
        if routed:
            yield f"blk.{layer}.ffn_exps.weight", routed


def _own_bytes(manifest: Manifest, role: Role) -> int:
    """Of a fragment's tensors, those that not every fragment holds."""
    return max(0, manifest.artifact(role).tensor_bytes - manifest.artifact(METADATA).tensor_bytes)
