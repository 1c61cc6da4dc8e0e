"""`meshllm id`: who this machine is to others, and a new key where a copied one has to go."""

import sys
from typing import Annotated

import typer

from meshllm_core.api.record import find_node
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json, fields
from meshllm_core.errors import ConfigError, NodeAlreadyRunning, NodeError, StorageError
from meshllm_core.identity.storage import KnownIdentity, keep_identity, known_identity, new_identity
from meshllm_core.ids import short
from meshllm_core.mesh.storage import MeshState, MeshStore
from meshllm_core.paths import Paths, default_paths

New = Annotated[
    bool, typer.Option("--new", help="Replace the key by a new one; memberships of the old one end.")
]
Keep = Annotated[
    bool, typer.Option("--keep", help="This folder moved here from another machine: keep its key.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --new: do not ask first.")]

_COPIED = (
    "This folder was made on another machine. If that machine still runs meshllm, both have one key and\n"
    "get in each other's way: make a new one here with `meshllm id --new`. If the folder has moved for\n"
    "good, say so with `meshllm id --keep`."
)


def identity(new: New = False, keep: Keep = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Show this machine's node id and where its key is kept."""
    if new and keep:
        raise ConfigError("--new and --keep say opposite things.", hint="Give one of them.")
    paths = default_paths()
    if new:
        _replace(paths, asked=yes)
    known = keep_identity(paths) if keep else known_identity(paths)
    mesh = _mesh(paths)
    if as_json:
        emit_json(_document(known, mesh))
        return
    if known is None:
        emit("This machine has no node id yet; the first `meshllm serve` makes one.")
        return
    rows = [
        ("node id", known.node.hex()),
        ("short", short(known.node)),
        ("key", f"in {known.storage}"),
        ("mesh", f"{short(mesh.mesh)} {mesh.name}".strip() if mesh else "none"),
    ]
    emit(fields(rows))
    if known.copied:
        say(_COPIED)


def _replace(paths: Paths, *, asked: bool) -> None:
    record = find_node(paths)
    if record is not None:
        raise NodeAlreadyRunning(
            f"A node of yours runs (process {record.pid}) with the key that would be replaced.",
            hint="Stop it first: `meshllm stop`.",
        )
    if not asked:
        _ask()
    new_identity(paths)
    aside = MeshStore(paths).clear()
    say("A new key was made. A mesh knows this machine as a new one now: join it again.")
    if aside is not None:
        say(f"The root key of the mesh that this machine founded is kept in {aside}.")


def _ask() -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            "A new key ends every membership of the old one, for good.", hint="Add --yes to go on."
        )
    say("A new key ends every membership of the old one, for good. Go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NodeError("Nothing was changed.")


def _mesh(paths: Paths) -> MeshState | None:
    """The mesh this machine belongs to, as it was last saved; what is wrong with that is no one's id."""
    try:
        return MeshStore(paths).load()
    except (StorageError, NodeError) as error:
        say(f"warning: {error}")
        return None


def _document(known: KnownIdentity | None, mesh: MeshState | None) -> dict[str, object]:
    return {
        "id": known.node.hex() if known else None,
        "short": short(known.node) if known else None,
        "storage": known.storage if known else None,
        "copied": known.copied if known else False,
        "mesh": mesh.mesh.hex() if mesh else None,
        "mesh_name": mesh.name if mesh else None,
    }
