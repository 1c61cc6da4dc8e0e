"""The file of one stage, from wherever the model is: only what its layers need is fetched.

    path of a GGUF, a split set, a package     read where it is
    hf://owner/repo[@rev] with a package       whole fragments, each checked by SHA-256
    any other reference of the hub             ranges of the GGUF itself

Layers that are here are used without asking the hub. Parts and stages lie in the cache, and go with
`models prune` unless a process uses them.
"""

from pathlib import Path

from meshllm_core.errors import ModelNotFound
from meshllm_core.models.cache import CachedModel, Source, SourceFile
from meshllm_core.models.locate import Remote, locate
from meshllm_core.models.package_folder import PackageFolder, open_package
from meshllm_core.models.package_hub import HubPackage, install_manifest, stage_of_hub_package
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.package_refs import parse_source
from meshllm_core.models.package_spans import PartialFile, fetch_pieces, pieces_of
from meshllm_core.models.package_stage import (
    PreparedStage,
    StageMaker,
    ready,
    stage_of_file,
    stage_of_package,
    stage_path,
    write_stage,
)
from meshllm_core.models.package_write import check_disk
from meshllm_core.models.quants import RemoteFile, RemoteModel
from meshllm_core.models.refs import AUTO, HubRef
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import open_source


def prepare_stage(
    ref: str, start: int, end: int, maker: StageMaker, *, refresh: bool = False
) -> PreparedStage:
    """The stage of layers [start, end) of the model that `ref` names, fetched as far as it is not here.

    `refresh` asks the hub for a newer version. Blocks; raises ModelError: CutRefused, ModelNotFound,
    ModelFileInvalid, DownloadFailed, HubUnreachable, StorageError.
    """
    found = parse_source(ref)
    if isinstance(found, HubRef):
        return _of_hub(found, start, end, maker, refresh=refresh)
    if found.is_dir():
        return stage_of_package(open_package(found), start, end, maker)
    if not found.is_file():
        raise ModelNotFound(f"There is no file or package {found}.", hint="Check the spelling.")
    return stage_of_file(found, start, end, maker)


def find_package(ref: str, maker: StageMaker) -> PackageFolder | HubPackage | None:
    """The package that `ref` names; None when it names a model that is no package, or nothing.

    Of a package at the hub at most the manifest is fetched, with the small files beside it. A package in a
    folder has every file that its manifest lists, in its size. Blocks; raises ModelError.
    """
    found = None if ref.strip().lower() == AUTO else parse_source(ref)
    if isinstance(found, Path):
        if not (found / MANIFEST_NAME).is_file():
            return None
        package = open_package(found)
        for _, artifact in package.manifest.fragments():
            package.path(artifact)
        return package
    if found is None or found.quant or found.file:
        return None
    key = (found.repo, found.quant, found.revision, found.file)
    if maker.cache.find_source(*key) is not None:
        return None
    here = maker.cache.find_layers(*key)
    if here is not None:
        return _recorded(here, found.revision, maker)
    listing = maker.hub.list_files(found.repo, found.revision)
    if not any(file.path == MANIFEST_NAME for file in listing.files):
        return None
    return install_manifest(listing, found.revision, maker)


def _recorded(here: CachedModel, revision: str, maker: StageMaker) -> HubPackage | None:
    """A package of which something is here, at the commit that it had; None for layers of another kind."""
    source = maker.cache.source(here.folder)
    if source is None or source.files[0].path != MANIFEST_NAME:
        return None
    return HubPackage(here.folder, source.repo, source.revisions[revision], maker)


def _of_hub(wanted: HubRef, start: int, end: int, maker: StageMaker, *, refresh: bool) -> PreparedStage:
    key = (wanted.repo, wanted.quant, wanted.revision, wanted.file)
    whole = maker.cache.find_source(*key)
    if whole is not None and not refresh:
        return stage_of_file(whole.files[0], start, end, maker)
    here = maker.cache.find_layers(*key)
    if here is not None and not refresh:
        return _of_record(here, wanted.revision, start, end, maker)
    listing = maker.hub.list_files(wanted.repo, wanted.revision)
    if any(file.path == MANIFEST_NAME for file in listing.files):
        return stage_of_hub_package(install_manifest(listing, wanted.revision, maker), start, end)
    located = locate(str(wanted), cache=maker.cache, hub=maker.hub, memory_available=None, refresh=True)
    assert located.remote is not None
    return _by_ranges(located.remote, start, end, maker)


def _of_record(here: CachedModel, revision: str, start: int, end: int, maker: StageMaker) -> PreparedStage:
    """Goes on with what an earlier run recorded, at the commit that it had."""
    package = _recorded(here, revision, maker)
    if package is not None:
        return stage_of_hub_package(package, start, end)
    source = maker.cache.source(here.folder)
    assert source is not None
    commit = source.revisions[revision]
    files = tuple(RemoteFile(file.path, file.size, file.sha256) for file in source.files)
    return _by_ranges(
        Remote(source.repo, revision, commit, RemoteModel(source.quant, files)), start, end, maker
    )


def _by_ranges(remote: Remote, start: int, end: int, maker: StageMaker) -> PreparedStage:
    folder = _record(remote, maker)
    with maker.holding(folder):
        parts = [
            PartialFile(maker.hub.ranges(remote.repo, remote.commit, file), folder / Path(file.path).name)
            for file in remote.model.files
        ]
        rules = StageRules(open_source([part.file for part in parts]))
        target, shape = stage_path(folder, start, end), rules.shape(start, end)
        if not ready(target, shape):
            plan = plan_stage_file(rules, start, end)
            missing = sum(end - first for part in parts for first, end in part.missing(pieces_of(plan, part)))
            needed = missing + plan.copied_bytes
            check_disk(folder, needed, f"The stage {target.name} with its parts", maker.disk_free)
            fetch_pieces(plan, parts, on_progress=maker.on_progress, cancelled=maker.cancelled)
            write_stage(plan, target, maker)
    received = sum(part.ranges.received for part in parts)
    return PreparedStage(remote.model.stem, target, shape, received, "")


def _record(remote: Remote, maker: StageMaker) -> Path:
    cache, model = maker.cache, remote.model
    content = "\n".join(f"{file.path} {file.size} {file.sha256 or file.git_sha1}" for file in model.files)
    folder = cache.layers_folder(remote.repo, content)
    earlier = cache.source(folder)
    source = Source(
        repo=remote.repo,
        quant=model.quant,
        revisions={**(earlier.revisions if earlier else {}), remote.revision: remote.commit},
        files=tuple(
            SourceFile(name=Path(file.path).name, path=file.path, size=file.size, sha256=file.sha256)
            for file in model.files
        ),
        kind="layers",
        id=model.stem,
        bytes_total=model.size,
    )
    return cache.record_source(folder, source)
