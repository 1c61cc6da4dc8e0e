"""Stages from a layer package at the hub: fragments of their layers, whole and checked; heads of the others.

In the cache a fragment has a name that we give it, never one that the manifest says.
"""

import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path

from meshllm_core.certify.record import Certified
from meshllm_core.errors import DownloadFailed, ModelError
from meshllm_core.models import package_manifest as manifests
from meshllm_core.models.cache import Source, SourceFile
from meshllm_core.models.hub import RemoteRepo
from meshllm_core.models.package_certificates import CERTIFICATES_NAME, MAX_BYTES, parse_certificates
from meshllm_core.models.package_folder import check_layers, check_probes
from meshllm_core.models.package_fragment import EMBEDDINGS, METADATA, OUTPUT, Role, layer_role
from meshllm_core.models.package_probes import MAX_PROBES_BYTES, PROBES_NAME, ProbeFile
from meshllm_core.models.package_spans import PartialFile, fetch_pieces, span_files
from meshllm_core.models.package_stage import (
    PreparedStage,
    StageMaker,
    check_roles,
    ready,
    stage_path,
    write_stage,
)
from meshllm_core.models.package_write import check_disk
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules, StageShape
from meshllm_core.models.stage_source import SourceFile as File
from meshllm_core.models.stage_source import local_file, open_source
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing


class HubPackage:
    """A package at one commit, and the part of it that is in the cache. Its folder's lock must be held."""

    def __init__(self, folder: Path, repo: str, commit: str, maker: StageMaker) -> None:
        """`folder` holds the manifest. Raises ModelFileInvalid."""
        with storing(folder):
            data = (folder / manifests.MANIFEST_NAME).read_bytes()
        self.folder = folder
        self.maker = maker
        self.manifest = manifests.parse_manifest(data, repo)
        self.identity = manifests.identity(data)
        self.downloaded = 0
        self._repo = repo
        self._commit = commit
        self._partial: dict[Role, PartialFile] = {}

    @property
    def reference(self) -> str:
        """What names it for ever: its repository at its commit."""
        return f"hf://{self._repo}@{self._commit}"

    def made_by(self, maker: StageMaker) -> "HubPackage":
        """The same package, with another maker's progress and stop."""
        return HubPackage(self.folder, self._repo, self._commit, maker)

    def missing_bytes(self, roles: Iterable[Role]) -> int:
        """Bytes of these fragments that have not come yet."""
        return sum(self.manifest.artifact(role).artifact_bytes - self._bytes_here(role) for role in roles)

    def fetch(self, roles: list[Role]) -> None:
        """Downloads fragments, going on where an earlier try stopped. Raises DownloadFailed, StorageError."""
        total, before = self.missing_bytes(roles), 0
        for role in roles:
            missing = self.missing_bytes([role])
            if not missing:
                continue
            artifact = self.manifest.artifact(role)
            remote = RemoteFile(artifact.path, artifact.artifact_bytes, artifact.sha256)
            self._download(remote, self._path(role), before, total)
            before += missing
            # Parts that came before are in the whole now.
            for name in span_files(self._path(role)):
                name.unlink(missing_ok=True)

    def file(self, role: Role) -> File:
        """A fragment to read from: the file if it is here, else whatever of it is asked for."""
        artifact = self.manifest.artifact(role)
        if not self.missing_bytes([role]):
            return local_file(self._path(role))
        if role not in self._partial:
            remote = RemoteFile(artifact.path, artifact.artifact_bytes, artifact.sha256)
            ranges = self.maker.hub.ranges(self._repo, self._commit, remote)
            self._partial[role] = PartialFile(ranges, self._path(role))
        return self._partial[role].file

    @property
    def partial(self) -> tuple[PartialFile, ...]:
        """Fragments of which only parts were asked for."""
        return tuple(self._partial.values())

    @property
    def received(self) -> int:
        """Bytes that came over the network."""
        return self.downloaded + sum(part.ranges.received for part in self.partial)

    def probes(self) -> tuple[Path | None, str]:
        """The golden probes, if they came along and can be used; else why not."""
        path = self.folder / PROBES_NAME
        if not path.is_file():
            return None, ""
        try:
            check_probes(ProbeFile(local_file(path)), self.manifest)
        except ModelError as error:
            return None, error.message
        return path, ""

    def _download(self, remote: RemoteFile, target: Path, before: int, total: int) -> None:
        start = _size(target.with_name(target.name + PARTIAL_SUFFIX))
        seen = [start]

        def report(done: int) -> None:
            seen.append(done)
            self.maker.on_progress(before + done - start, total)

        try:
            self.maker.hub.download(
                self._repo,
                self._commit,
                remote,
                target,
                on_progress=report,
                cancelled=self.maker.cancelled,
            )
        finally:
            self.downloaded += max(0, seen[-1] - start)

    def _path(self, role: Role) -> Path:
        return self.folder / f"{role.title}.gguf"

    def _bytes_here(self, role: Role) -> int:
        size = self.manifest.artifact(role).artifact_bytes
        path = self._path(role)
        if _size(path) == size:
            return size
        return min(size - 1, _size(path.with_name(path.name + PARTIAL_SUFFIX)))


def stage_of_hub_package(package: HubPackage, start: int, end: int) -> PreparedStage:
    """Layers [start, end) of a package at the hub. Raises ModelError."""
    maker, manifest = package.maker, package.manifest
    with maker.holding(package.folder):
        package.fetch([METADATA])
        whole = open_source([package.file(METADATA)])
        check_layers(whole, manifest)
        shape = StageRules(whole).shape(start, end)
        target = stage_path(package.folder, start, end)
        if not ready(target, shape):
            shape = _make(package, shape, target)
        probes, note = package.probes()
    return PreparedStage(manifest.model_id, target, shape, package.received, package.identity, probes, note)


def _make(package: HubPackage, shape: StageShape, target: Path) -> StageShape:
    """The stage's file; its shape differs from `shape` where the type of the embeddings wants it."""
    maker = package.maker
    wanted = [layer_role(layer) for layer in range(shape.start, shape.end)]
    wanted += [EMBEDDINGS] if shape.first or shape.sideband else []
    wanted += [OUTPUT] if shape.last else []
    # Whether the last stage needs the embeddings too is known once the output is here: room for them is kept.
    most = {*wanted, *([EMBEDDINGS] if shape.last else [])}
    copied = sum(package.manifest.artifact(role).tensor_bytes for role in most)
    needed = package.missing_bytes(most) + copied
    check_disk(package.folder, needed, f"The stage {target.name} with its fragments", maker.disk_free)
    package.fetch(wanted)
    if shape.last and "output.weight" not in open_source([package.file(OUTPUT)]).tensors:
        package.fetch([EMBEDDINGS])
    window = [layer_role(layer) for layer in range(shape.window_start, shape.window_end)]
    files = {role: package.file(role) for role in (METADATA, EMBEDDINGS, *window, OUTPUT)}
    source = open_source(list(files.values()))
    check_roles(source, files)
    plan = plan_stage_file(StageRules(source), shape.start, shape.end)
    fetch_pieces(plan, package.partial, on_progress=maker.on_progress, cancelled=maker.cancelled)
    write_stage(plan, target, maker)
    return plan.shape


def install_manifest(listing: RemoteRepo, revision: str, maker: StageMaker) -> HubPackage:
    """Fetches a package's manifest into the cache, if the hub has all that it lists. Raises ModelError."""
    cache, hub = maker.cache, maker.hub
    data = read_manifest(listing, maker)
    manifest = manifests.parse_manifest(data, listing.repo)
    listed = {file.path: file for file in listing.files}
    for _, artifact in manifest.fragments():
        _check_listed(listing.repo, artifact, listed.get(artifact.path))
    folder = cache.layers_folder(listing.repo, manifests.identity(data))
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{manifests.MANIFEST_NAME}.{secrets.token_hex(8)}.new"
        fresh.write_bytes(data)
        fresh.replace(folder / manifests.MANIFEST_NAME)
    earlier = cache.source(folder)
    cache.record_source(
        folder,
        Source(
            repo=listing.repo,
            quant="",
            revisions={**(earlier.revisions if earlier else {}), revision: listing.commit},
            files=(SourceFile(name=manifests.MANIFEST_NAME, path=manifests.MANIFEST_NAME, size=len(data)),),
            kind="layers",
            id=manifest.model_id,
            bytes_total=sum(artifact.artifact_bytes for _, artifact in manifest.fragments()),
        ),
    )
    with maker.holding(folder):
        for name, most in ((PROBES_NAME, MAX_PROBES_BYTES), (CERTIFICATES_NAME, MAX_BYTES)):
            beside = listed.get(name)
            if beside is None or beside.size > most or (folder / name).exists():
                continue
            hub.download(
                listing.repo,
                listing.commit,
                beside,
                folder / name,
                on_progress=lambda done: None,
                cancelled=maker.cancelled,
            )
    return HubPackage(folder, listing.repo, listing.commit, maker)


def read_manifest(listing: RemoteRepo, maker: StageMaker) -> bytes:
    """The bytes of a package's manifest at the hub. Raises DownloadFailed, HubUnreachable."""
    file = next(file for file in listing.files if file.path == manifests.MANIFEST_NAME)
    if file.size > manifests.MAX_MANIFEST_BYTES:
        raise DownloadFailed(
            f"The manifest of {listing.repo} has {file.size} bytes; the limit is "
            f"{manifests.MAX_MANIFEST_BYTES}.",
            hint="It is no layer package: use another one.",
        )
    return _read(listing, file, maker)


def read_hub_certificates(
    listing: RemoteRepo, manifest: manifests.Manifest, maker: StageMaker
) -> tuple[Certified, ...]:
    """The certificates beside a manifest at the hub; whom to believe is for the caller.

    Raises ModelFileInvalid, DownloadFailed, HubUnreachable.
    """
    file = next((file for file in listing.files if file.path == CERTIFICATES_NAME), None)
    if file is None or file.size > MAX_BYTES:
        return ()
    return tuple(record for _, record in parse_certificates(_read(listing, file, maker), manifest))


def _read(listing: RemoteRepo, file: RemoteFile, maker: StageMaker) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "file"
        maker.hub.download(
            listing.repo,
            listing.commit,
            file,
            target,
            on_progress=lambda done: None,
            cancelled=maker.cancelled,
        )
        return target.read_bytes()


def _check_listed(repo: str, artifact: manifests.Artifact, file: RemoteFile | None) -> None:
    """Before gigabytes are fetched: does the hub have what the manifest promises?"""
    if file is None:
        wrong = "which is not there"
    elif file.size != artifact.artifact_bytes:
        wrong = f"which has {file.size} bytes there instead of {artifact.artifact_bytes}"
    elif file.sha256 and file.sha256 != artifact.sha256:
        wrong = "which has another SHA-256 there"
    else:
        return
    raise DownloadFailed(
        f"The package {repo} is not whole: its manifest lists {artifact.path}, {wrong}.",
        hint="Tell its publisher, or use another revision.",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
