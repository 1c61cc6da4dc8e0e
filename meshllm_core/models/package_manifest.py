"""model-package.json: what a layer package holds. The format is Mesh LLM's, schema 1. Pure.

Every field from outside is checked before anything is made of it. Unknown fields are ignored: newer
writers add some. The identity of a package in a mesh is the SHA-256 of this file's bytes.
"""

import hashlib
import re
from collections.abc import Iterator

import msgspec

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.keys import MAX_LAYERS, MAX_WIDTH
from meshllm_core.models.package_fragment import EMBEDDINGS, METADATA, OUTPUT, Role, layer_role
from meshllm_core.models.units import printable

MANIFEST_NAME = "model-package.json"
MAX_MANIFEST_BYTES = 16 << 20
MAX_ARTIFACT_BYTES = 1 << 42
"""A fragment's size beyond this is not believed."""
MAX_TENSORS = 1_000_000
FORMAT = "layer-package"
SCHEMA = 1
ABI = "0.1.0"
"""Says nothing about the fragments; readers want their own major and at most their own minor."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[^/\\:*?\"<>|]{1,255}")
_MAX_PATH = 1024
_HINT = "The package is damaged or made by something else: get it again from where it was published."


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a package."""

    path: str
    """In the package; relative."""
    tensor_count: int
    tensor_bytes: int
    """Of its tensors, without padding."""
    artifact_bytes: int
    """Of the file."""
    sha256: str


class LayerArtifact(Artifact, frozen=True, kw_only=True):
    """The fragment of one layer."""

    layer_index: int


class Projector(Artifact, frozen=True, kw_only=True):
    """A part for images or sound, beside the layers."""

    kind: str = "mmproj"


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The fragments that are no layer."""

    metadata: Artifact
    embeddings: Artifact
    output: Artifact


class SourceFileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the model that was packaged."""

    path: str
    size_bytes: int
    sha256: str


class SourceModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that was packaged."""

    path: str
    sha256: str
    """Of the file; of the first file of a split set."""
    repo: str | None = None
    revision: str | None = None
    primary_file: str | None = None
    files: tuple[SourceFileFacts, ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Content of model-package.json."""

    schema_version: int
    model_id: str
    format: str
    layer_count: int
    source_model: SourceModel
    shared: Shared
    layers: tuple[LayerArtifact, ...]
    skippy_abi_version: str
    created_at_unix_secs: int
    projectors: tuple[Projector, ...] | None = None
    activation_width: int | None = None

    def artifact(self, role: Role) -> Artifact:
        """The file of a fragment; a layer must be one of the model's."""
        shared = {
            METADATA: self.shared.metadata,
            EMBEDDINGS: self.shared.embeddings,
            OUTPUT: self.shared.output,
        }
        return self.layers[role.layer] if role.layer is not None else shared[role]

    def fragments(self) -> Iterator[tuple[Role, Artifact]]:
        """Every fragment, in the order in which they are joined."""
        for role in (METADATA, EMBEDDINGS, *map(layer_role, range(self.layer_count)), OUTPUT):
            yield role, self.artifact(role)


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """What says whether the rest can be understood."""

    schema_version: int
    format: str
    layer_count: int


def identity(data: bytes) -> str:
    """A package's name in a mesh: the SHA-256 of its manifest's bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def encode_manifest(manifest: Manifest) -> bytes:
    """The file's bytes."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def parse_manifest(data: bytes, name: str) -> Manifest:
    """A manifest whose every part can be used; layers in order. `name` says whose, in messages.

    Raises ModelFileInvalid.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise _invalid(name, f"it is {len(data)} bytes long; the limit is {MAX_MANIFEST_BYTES}")
    try:
        _check_start(msgspec.json.decode(data, type=_Start), name)
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(name, printable(str(error))) from error
    _check_layers(manifest, name)
    in_order = sorted(manifest.layers, key=lambda layer: layer.layer_index)
    manifest = msgspec.structs.replace(manifest, layers=tuple(in_order))
    paths: set[str] = set()
    for what, artifact in _named(manifest):
        _check_artifact(artifact, what, name)
        if artifact.path.lower() in paths:
            raise _invalid(name, f"two entries name the file {artifact.path!r}")
        paths.add(artifact.path.lower())
    if manifest.activation_width is not None and not 0 < manifest.activation_width <= MAX_WIDTH:
        raise _invalid(name, f"activation_width is {manifest.activation_width}")
    if not manifest.model_id or not manifest.model_id.isprintable() or len(manifest.model_id) > 512:
        raise _invalid(name, "model_id is empty, too long or not printable")
    if not _SHA256.fullmatch(manifest.source_model.sha256):
        raise _invalid(name, "source_model.sha256 is not 64 hex digits")
    return manifest


def _check_start(start: _Start, name: str) -> None:
    if start.format != FORMAT:
        raise _invalid(name, f"its format is {printable(start.format, 60)!r}, not {FORMAT!r}")
    if start.schema_version != SCHEMA:
        raise ModelFileInvalid(
            f"The package {name} has schema {start.schema_version}; this meshllm reads schema {SCHEMA}.",
            hint="Update meshllm, or use another package or a plain GGUF of the model.",
        )
    if not 0 < start.layer_count <= MAX_LAYERS:
        raise _invalid(name, f"it claims {start.layer_count} layers; 1 to {MAX_LAYERS} are possible")


def _check_layers(manifest: Manifest, name: str) -> None:
    seen: set[int] = set()
    for layer in manifest.layers:
        if not 0 <= layer.layer_index < manifest.layer_count:
            raise _invalid(name, f"it lists layer {layer.layer_index} of {manifest.layer_count}")
        if layer.layer_index in seen:
            raise _invalid(name, f"layer {layer.layer_index} is listed twice")
        seen.add(layer.layer_index)
    if missing := sorted(set(range(manifest.layer_count)) - seen):
        raise _invalid(name, f"layer {missing[0]} is missing")


def _named(manifest: Manifest) -> Iterator[tuple[str, Artifact]]:
    for role, artifact in manifest.fragments():
        yield role.title, artifact
    for number, projector in enumerate(manifest.projectors or ()):
        yield f"projector {number}", projector


def _check_artifact(artifact: Artifact, what: str, name: str) -> None:
    if not safe_path(artifact.path):
        raise _invalid(
            name, f"the path of {what}, {printable(artifact.path)!r}, leads out of it or is unusable"
        )
    if not 0 < artifact.artifact_bytes <= MAX_ARTIFACT_BYTES:
        raise _invalid(name, f"{what} claims {artifact.artifact_bytes} bytes")
    if not 0 <= artifact.tensor_count <= MAX_TENSORS:
        raise _invalid(name, f"{what} claims {artifact.tensor_count} tensors")
    if not 0 <= artifact.tensor_bytes < artifact.artifact_bytes:
        raise _invalid(
            name, f"{what} claims {artifact.tensor_bytes} bytes of tensors in {artifact.artifact_bytes}"
        )
    if (artifact.tensor_bytes == 0) != (artifact.tensor_count == 0):
        raise _invalid(
            name, f"{what} claims {artifact.tensor_count} tensors of {artifact.tensor_bytes} bytes"
        )
    if not _SHA256.fullmatch(artifact.sha256):
        raise _invalid(name, f"the sha256 of {what} is not 64 hex digits")


def safe_path(path: str) -> bool:
    """Whether a path stays inside its package and can be a file's name on any disk."""
    parts = path.split("/")
    return (
        0 < len(path) <= _MAX_PATH
        and path.isprintable()
        and all(_PART.fullmatch(part) and not part.startswith(".") for part in parts)
        and not any(part.endswith((".", " ")) for part in parts)
    )


def _invalid(name: str, what: str) -> ModelFileInvalid:
    return ModelFileInvalid(f"The package {name} cannot be used: {what}.", hint=_HINT)
