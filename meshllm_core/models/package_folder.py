"""A layer package in a folder of this disk: opened, and checked in every respect."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.errors import ModelError, ModelFileInvalid, ModelNotFound
from meshllm_core.models import package_manifest as manifests
from meshllm_core.models.digest import sha256_of
from meshllm_core.models.gguf_file import GgufHead, read_head
from meshllm_core.models.package_certificates import CERTIFICATES_NAME, read_certificates
from meshllm_core.models.package_fragment import METADATA, SLICE_PREFIX, Role, role_of
from meshllm_core.models.package_probes import PROBES_NAME, ProbeFile
from meshllm_core.models.stage_source import SourceFile, StageSource, local_file, open_source

_HINT = "Get the file again from where the package was published, or build the package anew."
_LINK_HINT = "Copy the package with what its links lead to (`cp -rL`), or name it by hf://owner/repo."
_FREE_KEYS = ("general.alignment", SLICE_PREFIX)
"""Keys in which fragments of one model may differ."""


@dataclass(frozen=True)
class PackageFolder:
    """A package whose manifest can be used; its files are looked at when they are needed."""

    folder: Path
    manifest: manifests.Manifest
    identity: str
    """SHA-256 of the manifest."""

    def path(self, artifact: manifests.Artifact) -> Path:
        """Where a file is. Raises ModelFileInvalid unless it is there, of its size, and no link."""
        path = self.folder
        for part in artifact.path.split("/"):
            path = path / part
            if path.is_symlink() and not self._in_hub_cache(path):
                raise self._invalid(f"{artifact.path} is or goes through a link", _LINK_HINT)
        if not path.is_file():
            raise self._invalid(f"{artifact.path} is missing")
        if (size := path.stat().st_size) != artifact.artifact_bytes:
            raise self._invalid(f"{artifact.path} has {size} bytes instead of {artifact.artifact_bytes}")
        return path

    def checked(self, artifact: manifests.Artifact) -> Path:
        """The same, after its hash was compared."""
        path = self.path(artifact)
        if sha256_of(path) != artifact.sha256:
            raise self._invalid(f"{artifact.path} is damaged: its SHA-256 is not that of the manifest")
        return path

    def probes(self) -> Path | None:
        """The golden probes, if there are some that belong to it. Raises ModelFileInvalid for others."""
        path = self.folder / PROBES_NAME
        if not path.exists():
            return None
        check_probes(ProbeFile(local_file(path)), self.manifest)
        return path

    def _in_hub_cache(self, link: Path) -> bool:
        """Whether a link is one of those that the hub's own tools lay: from snapshots/<commit> to blobs."""
        snapshots = self.folder.absolute().parent
        blobs = (snapshots.parent / "blobs").resolve()
        return snapshots.name == "snapshots" and link.resolve().parent == blobs

    def _invalid(self, what: str, hint: str = _HINT) -> ModelFileInvalid:
        return ModelFileInvalid(f"The package {self.folder} cannot be used: {what}.", hint=hint)


def open_package(folder: Path) -> PackageFolder:
    """Reads the manifest. Raises ModelNotFound, ModelFileInvalid."""
    path = folder / manifests.MANIFEST_NAME
    if not path.is_file():
        raise ModelNotFound(
            f"{folder} holds no {manifests.MANIFEST_NAME}.", hint="Name the folder of a layer package."
        )
    if path.stat().st_size > manifests.MAX_MANIFEST_BYTES:
        raise ModelFileInvalid(f"{path} is too long to be a manifest.", hint=_HINT)
    data = path.read_bytes()
    return PackageFolder(folder, manifests.parse_manifest(data, str(folder)), manifests.identity(data))


def package_files(folder: Path) -> tuple[SourceFile, ...]:
    """The fragments of the package in `folder`, in order; none where it holds no package.

    Their sizes are checked, not their hashes. Raises ModelFileInvalid.
    """
    if not (folder / manifests.MANIFEST_NAME).is_file():
        return ()
    package = open_package(folder)
    return tuple(local_file(package.path(artifact)) for _, artifact in package.manifest.fragments())


def verify_package(package: PackageFolder) -> Iterator[tuple[str, str]]:
    """Looks at every file; yields (file, what is wrong with it or an empty string) as it goes."""
    manifest = package.manifest
    first: GgufHead | None = None
    for role, artifact in manifest.fragments():
        try:
            head = read_head(package.checked(artifact))
            first = first or head
            check_fragment(head, role, artifact, first)
            if role == METADATA:
                check_layers(open_source([local_file(head.path)]), manifest)
        except ModelError as error:
            yield artifact.path, error.message
        else:
            yield artifact.path, ""
    for projector in manifest.projectors or ():
        try:
            head = read_head(package.checked(projector))
            _check_counts(head, projector)
        except ModelError as error:
            yield projector.path, error.message
        else:
            yield projector.path, ""
    try:
        if package.probes():
            yield PROBES_NAME, ""
    except ModelError as error:
        yield PROBES_NAME, error.message
    try:
        if read_certificates(package.folder, manifest):
            yield CERTIFICATES_NAME, ""
    except ModelError as error:
        yield CERTIFICATES_NAME, error.message


def check_fragment(head: GgufHead, role: Role, artifact: manifests.Artifact, first: GgufHead) -> None:
    """Whether a fragment holds what it must, of the same model as `first`. Raises ModelFileInvalid."""
    if head.version != 3:
        raise _wrong(artifact, f"it is GGUF version {head.version}, not 3")
    _check_counts(head, artifact)
    for tensor in head.tensors:
        if role_of(tensor.name) not in (role, None):
            raise _wrong(artifact, f"it holds {tensor.name!r}, which does not belong to {role.title}")
    if role != METADATA and not any(role_of(tensor.name) == role for tensor in head.tensors):
        raise _wrong(artifact, f"it holds no tensor of {role.title}")
    stage = head.values.get(f"{SLICE_PREFIX}stage_index", role.stage_index)
    if stage != role.stage_index:
        raise _wrong(artifact, f"it says that it is part {stage}, not {role.stage_index}")
    if _model(head) != _model(first):
        raise _wrong(artifact, "its key/values are those of another model")
    known = {tensor.name: (tensor.shape, tensor.type) for tensor in first.tensors}
    for tensor in head.tensors:
        if known.get(tensor.name, (tensor.shape, tensor.type)) != (tensor.shape, tensor.type):
            raise _wrong(artifact, f"it holds {tensor.name!r} in another shape than the first fragment")


def check_layers(source: StageSource, manifest: manifests.Manifest) -> None:
    """Whether key/values and manifest speak of the same layers; prediction heads may be left out.

    Raises ModelFileInvalid.
    """
    if source.layers <= manifest.layer_count <= source.blocks:
        return
    raise ModelFileInvalid(
        f"The package {manifest.model_id} cannot be used: its key/values say {source.layers} layers, "
        f"its manifest {manifest.layer_count}.",
        hint="Tell its publisher, or build the package anew.",
    )


def check_probes(probes: ProbeFile, manifest: manifests.Manifest) -> None:
    """Whether probes were made from the packaged model, each row readable. Raises ModelFileInvalid."""
    if (probes.source_sha256, probes.layers) != (manifest.source_model.sha256, manifest.layer_count):
        raise ModelFileInvalid(
            f"The golden probes beside {manifest.model_id} were made from another model.",
            hint="Make them again, or remove the file: a package is whole without it.",
        )
    for boundary in probes.boundaries:
        probes.rows(boundary)


def _check_counts(head: GgufHead, artifact: manifests.Artifact) -> None:
    if len(head.tensors) != artifact.tensor_count:
        raise _wrong(artifact, f"it holds {len(head.tensors)} tensors instead of {artifact.tensor_count}")
    if (found := sum(tensor.nbytes for tensor in head.tensors)) != artifact.tensor_bytes:
        raise _wrong(artifact, f"its tensors have {found} bytes instead of {artifact.tensor_bytes}")


def _model(head: GgufHead) -> dict[str, str]:
    """In words: a value that is not a number would not equal itself."""
    return {key: repr(value) for key, value in head.values.items() if not key.startswith(_FREE_KEYS)}


def _wrong(artifact: manifests.Artifact, what: str) -> ModelFileInvalid:
    return ModelFileInvalid(f"{artifact.path} cannot be used: {what}.", hint=_HINT)
