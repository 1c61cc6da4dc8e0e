"""Cuts a GGUF of this disk into a layer package. The folder appears whole or not at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meshllm_core.certify.record import open_certificate
from meshllm_core.errors import ConfigError, ModelFileInvalid
from meshllm_core.models import package_manifest as manifests
from meshllm_core.models.digest import sha256_of
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.package_certificates import CERTIFICATES_NAME, artifact_of, encode_certificates
from meshllm_core.models.package_fragment import (
    EMBEDDINGS,
    METADATA,
    OUTPUT,
    Fragments,
    GgufPlan,
    Role,
    count_layers,
    layer_role,
    role_of,
)
from meshllm_core.models.package_probes import PROBES_NAME, GoldenProbes, encode_probes
from meshllm_core.models.package_write import check_disk, write_plan
from meshllm_core.models.resolve import OnProgress, free_disk
from meshllm_core.models.scratch import scratch
from meshllm_core.models.split import model_stem
from meshllm_core.models.stage_source import StageSource, local_files, open_source
from meshllm_core.models.storage import storing
from meshllm_core.models.transfer import Report


@dataclass(frozen=True)
class Origin:
    """Where the model came from, for the manifest; empty where not known."""

    model_id: str = ""
    """Empty: the file's name without `.gguf`."""
    repo: str = ""
    revision: str = ""


@dataclass(frozen=True)
class BuiltPackage:
    """A package that was just made."""

    folder: Path
    manifest: manifests.Manifest
    identity: str
    """SHA-256 of the manifest."""
    bytes_total: int


def build_package(
    path: Path,
    target: Path,
    *,
    created_at: int,
    origin: Origin = Origin(),
    probes: Callable[[], GoldenProbes | None] = lambda: None,
    certificates: Sequence[bytes] = (),
    on_progress: OnProgress = lambda done, total: None,
    on_hashed: OnProgress = lambda done, total: None,
    disk_free: Callable[[Path], int] = free_disk,
) -> BuiltPackage:
    """Packages the model at `path` (any member of a split set) into the folder `target`, which must be new.

    `created_at` in seconds since the epoch; `probes` are asked for when nothing else is in the way, since
    they take long; `certificates` are signed, of any model: those of this one go along. `on_hashed` gets the
    bytes of the model that were read, before `on_progress` those that were written. Raises ModelError,
    StorageError, ConfigError.
    """
    _check_new(target)
    facts = inspect_model(path)
    source = open_source(local_files(path))
    layers = count_layers(source.tensors, source.name)
    fragments = Fragments(source)
    plans = {role: fragments.plan(role, layers) for role in roles(layers)}
    _check_plans(source, plans, layers)
    total = sum(plan.size for plan in plans.values())
    parent, other = target.absolute().parent, "Free some space, or name a folder on another disk."
    check_disk(parent, total, f"The package of {source.name}", disk_free, hint=other)
    golden = probes()
    hashes = _hashed(facts.files, on_hashed)
    # Beside the target: what is renamed must be on the same disk.
    with scratch(parent, target.absolute().name) as folder:
        fresh = folder / "package"
        artifacts = _write_all(plans, fresh, on_progress)
        manifest = _manifest(artifacts, facts.files, hashes, facts.width, origin, created_at)
        data = manifests.encode_manifest(manifest)
        with storing(fresh):
            if golden is not None:
                (fresh / PROBES_NAME).write_bytes(encode_probes(golden, hashes[0], layers))
            if own := _certificates(certificates, manifest):
                (fresh / CERTIFICATES_NAME).write_bytes(encode_certificates(own))
            (fresh / manifests.MANIFEST_NAME).write_bytes(data)
        _install(fresh, target)
    return BuiltPackage(target, manifest, manifests.identity(data), total + len(data))


def _hashed(files: Sequence[Path], on_hashed: OnProgress) -> list[str]:
    """The SHA-256 of each file."""
    total, before, found = sum(file.stat().st_size for file in files), 0, []
    report = Report(lambda done: on_hashed(done, total))
    for file in files:
        found.append(sha256_of(file, partial(_add, report, before)))
        before += file.stat().st_size
    report(before, force=True)
    return found


def _add(report: Report, before: int, here: int) -> None:
    report(before + here)


def _check_plans(source: StageSource, plans: dict[Role, GgufPlan], layers: int) -> None:
    """Whether others could use the package: `verify` would refuse the same."""
    if not source.layers <= layers <= source.blocks:
        raise source.keys.invalid(f"it has {layers} layers, and its key/values say {source.layers}")
    for role, plan in plans.items():
        if role != METADATA and not any(role_of(tensor.name) == role for tensor in plan.tensors):
            raise ModelFileInvalid(
                f"{source.name} cannot be packaged: it holds no tensor of {role.title}.",
                hint="Packages are of models that make text, with the tables at both ends.",
            )


def _check_new(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists already.", hint="Name a folder that does not exist yet.")


def _install(fresh: Path, target: Path) -> None:
    """All of it appears at once, if nobody made the target meanwhile."""
    with storing(target.absolute().parent):
        _check_new(target)
        if target.exists():
            target.rmdir()
        fresh.rename(target)


def _certificates(raws: Sequence[bytes], manifest: manifests.Manifest) -> list[bytes]:
    """Those of the packaged model."""
    artifact = artifact_of(manifest)
    return [raw for raw in raws if open_certificate(raw).certificate.artifact == artifact]


def roles(layers: int) -> tuple[Role, ...]:
    """All fragments of a model, in the order in which they are joined."""
    return (METADATA, EMBEDDINGS, *map(layer_role, range(layers)), OUTPUT)


def _write_all(
    plans: dict[Role, GgufPlan], folder: Path, on_progress: OnProgress
) -> dict[Role, manifests.Artifact]:
    total, done = sum(plan.size for plan in plans.values()), 0
    artifacts = {}
    for role, plan in plans.items():
        path = f"{'shared' if role.layer is None else 'layers'}/{role.title}.gguf"

        def report(here: int, before: int = done) -> None:
            on_progress(before + here, total)

        with storing(folder):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            digest = write_plan(plan, folder / path, report)
        done += plan.size
        artifacts[role] = manifests.Artifact(
            path=path,
            tensor_count=len(plan.tensors),
            tensor_bytes=plan.tensor_bytes,
            artifact_bytes=plan.size,
            sha256=digest,
        )
    return artifacts


def _manifest(
    artifacts: dict[Role, manifests.Artifact],
    files: Sequence[Path],
    hashes: Sequence[str],
    width: int,
    origin: Origin,
    created_at: int,
) -> manifests.Manifest:
    layers = [
        manifests.LayerArtifact(
            layer_index=role.layer,
            path=artifact.path,
            tensor_count=artifact.tensor_count,
            tensor_bytes=artifact.tensor_bytes,
            artifact_bytes=artifact.artifact_bytes,
            sha256=artifact.sha256,
        )
        for role, artifact in artifacts.items()
        if role.layer is not None
    ]
    return manifests.Manifest(
        schema_version=manifests.SCHEMA,
        model_id=origin.model_id or model_stem(files[0].name),
        format=manifests.FORMAT,
        layer_count=len(layers),
        activation_width=width,
        source_model=manifests.SourceModel(
            path=files[0].name,
            sha256=hashes[0],
            repo=origin.repo or None,
            revision=origin.revision or None,
            primary_file=files[0].name,
            files=tuple(
                manifests.SourceFileFacts(path=file.name, size_bytes=file.stat().st_size, sha256=digest)
                for file, digest in zip(files, hashes, strict=True)
            ),
        ),
        shared=manifests.Shared(
            metadata=artifacts[METADATA], embeddings=artifacts[EMBEDDINGS], output=artifacts[OUTPUT]
        ),
        layers=tuple(layers),
        projectors=(),
        skippy_abi_version=manifests.ABI,
        created_at_unix_secs=created_at,
    )
