"""The management API's JSON about models: on this disk, in the catalogue, at the hub, on their way."""

from typing import Annotated, Literal

import msgspec

ModelRef = Annotated[str, msgspec.Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A model's reference: no control characters, at most 1,024 characters."""
ModelKey = ModelRef
"""A `key` from the library."""
DownloadId = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[0-9a-f]+$")]
"""An `id` from `downloads` of the snapshot."""
SearchText = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
RepoName = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")]

FitKind = Literal["here", "other", "split", "nowhere", "unknown"]


class FitMark(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model would fit now."""

    kind: FitKind
    need_bytes: int
    """Memory that it takes as a whole; 0: not known."""
    room_bytes: int
    """What models may take there: on this machine, on the other one, on those of a split, on all."""
    machines: tuple[str, ...] = ()
    """The one that holds it, or those of a split, this one first."""


class LibraryModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this machine's disk."""

    key: str
    """What `delete_model` takes."""
    id: str
    ref: str
    """What to write to load it."""
    quant: str
    kind: Literal["model", "layers"]
    complete: bool
    """Whether all of it is here; layers never are all."""
    comes_with: bool
    """It is a part of meshllm's installation and cannot be deleted."""
    bytes_here: int
    bytes_total: int
    modified: float
    """Seconds since the epoch."""
    loaded: bool
    """This node serves it, or loads it now."""
    used_by: tuple[int, ...]
    """Processes that have it loaded; this node may be one of them."""
    fit: FitMark


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `library`."""

    folder: str
    disk_free: int
    bytes_here: int
    models: tuple[LibraryModel, ...]


class CatalogModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model worth offering."""

    id: str
    ref: str
    """What to write to load it: the same as `id`."""
    repo: str
    quant: str
    bytes: int
    """Of the download, about."""
    memory_bytes: int
    """With a conversation of some thousand tokens."""
    parameters: int
    licence: str
    about: str
    pick: bool
    """The best one that fits on this machine."""
    here: bool
    """On this disk, whole."""
    fit: FitMark


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `catalog`."""

    memory_free: int
    machines: int
    """Members of the mesh that could compute, this one counted."""
    models: tuple[CatalogModel, ...]


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `hub/search`."""

    query: SearchText
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 30


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """A repository of the hub that holds GGUF models."""

    repo: str
    downloads: int
    """Of the last month."""
    likes: int
    gated: bool
    """Its owner wants terms accepted first."""
    parameters: int
    """0: the hub does not say."""
    architecture: str
    quants: tuple[str, ...]
    """What it holds, best first."""
    quant: str
    """The best of them that fits, else the smallest; `fit` is about this one."""
    bytes: int
    """Of that one, estimated from the parameters; 0: not known."""
    fit: FitMark


class HubSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `hub/search`."""

    hub: str
    """Its address."""
    models: tuple[HubModel, ...]


class RepoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `hub/models`."""

    repo: RepoName
    """owner/name."""


class HubFile(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a repository: one quantization."""

    ref: str
    """What to write to load it."""
    name: str
    quant: str
    bytes: int
    files: int
    here: bool
    """On this disk, whole."""
    fit: FitMark


class HubRepo(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `hub/models`: best quantization first."""

    repo: str
    commit: str
    models: tuple[HubFile, ...]


class NoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Takes nothing."""


class DownloadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `download`."""

    model: ModelRef
    """owner/repo[:QUANT][@revision] or a name of the catalogue."""
    any_size: bool = False
    """Also what this machine's memory cannot hold."""


class OneDownloadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `pause_download`, `resume_download`, `cancel_download`."""

    download: DownloadId


class DeleteModelArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `delete_model`."""

    model: ModelKey
