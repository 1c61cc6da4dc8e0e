"""`meshllm revoke` and `meshllm leave`: ending a membership, another's or one's own."""

import sys
from typing import Annotated, Any

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.members import ID_SHOWN, in_mesh, settled
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ConfigError, ExitCode
from meshllm_core.mesh.storage import MeshStore
from meshllm_core.paths import default_paths
from meshllm_core.state.snapshot import NodeSnapshot

ID_LEAST = 6
"""Digits that an id may be cut to."""

Target = Annotated[
    str,
    typer.Argument(
        metavar="MEMBER|INVITE",
        help="Its id, or the first six digits of it, as `meshllm members` and `meshllm invites` show it; "
        "or a member's name.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def revoke(target: Target, yes: Yes = False, as_json: AsJson = False, console: Console = "") -> None:
    """End the membership of a machine and of all that it let in, or take an invite back."""
    answer = ask(lambda client: _revoked(client, target, yes), console=console)
    if answer is None:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if as_json:
        emit_json(answer)
        return
    emit(f"Revoked: {_names(answer)}.")


async def _revoked(client: ManagementClient, target: str, yes: bool) -> dict[str, Any] | None:
    """The node's answer; None if a person said no."""
    snapshot = await settled(client)
    in_mesh(snapshot)
    target = identity_of(snapshot, target)
    if not yes:
        preview = await client.act("revoke", target=target)
        if preview.get("done"):
            return preview
        if not confirmed(_question(snapshot, preview)):
            return None
    return await client.act("revoke", target=target, confirm=True)


def identity_of(snapshot: NodeSnapshot, target: str) -> str:
    """The id of the member with that name, else `target` as it is. Raises ConfigError for several.

    An id is taken as one even where a machine, which chooses its name itself, is called so.
    """
    members = {snapshot.node: snapshot.name, **{peer.node: peer.name for peer in snapshot.peers}}
    invites = snapshot.mesh.invites if snapshot.mesh else ()
    wanted = target.strip().casefold()
    if len(wanted) >= ID_LEAST and any(
        known.startswith(wanted) for known in (*members, *(invite.id for invite in invites))
    ):
        return target
    named = [node for node, name in members.items() if name.casefold() == wanted]
    if len(named) > 1:
        ids = ", ".join(node[:ID_SHOWN] for node in named)
        raise ConfigError(f"{len(named)} members are called {target!r}.", hint=f"Give one's id: {ids}.")
    return named[0] if named else target


def _question(snapshot: NodeSnapshot, preview: dict[str, Any]) -> str:
    names = _names(preview)
    if snapshot.mesh is not None and names in {invite.id for invite in snapshot.mesh.invites}:
        return f"Nobody could join with the invite {names} any more; who came by it stays. Go on?"
    return f"These would be in the mesh no more: {names}. Each needs a new invite to come back. Go on?"


def _names(answer: dict[str, Any]) -> str:
    return clean(", ".join(str(name) for name in answer.get("revoked", ())))


def leave(yes: Yes = False, as_json: AsJson = False, console: Console = "") -> None:
    """Leave the mesh; to come back, this node needs a new invite."""
    answer = ask(lambda client: _left(client, yes), console=console)
    if answer is None:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if as_json:
        emit_json(answer)
    else:
        emit("This node has left the mesh.")


async def _left(client: ManagementClient, yes: bool) -> dict[str, Any] | None:
    snapshot = await settled(client)
    if snapshot.mesh is None and MeshStore(default_paths()).exists():
        # It may be a member of one that it cannot enter now: the node knows, and this is how it gets out.
        return await client.act("leave")
    mesh = in_mesh(snapshot)
    others = sum(peer.status in ("alive", "suspect") for peer in snapshot.peers)
    if not yes:
        machines = "1 other machine stays" if others == 1 else f"{others} other machines stay"
        say(f"{machines} in {clean(mesh.name) or 'the mesh'}, without the models of this node.")
        if mesh.founder:
            say("This node founded it: nobody else may revoke any member. Its key is set aside, not deleted.")
            if not any(peer.may_invite for peer in snapshot.peers):
                say("No other member may invite: nobody new can come in any more.")
        if not confirmed("To come back, this node needs a new invite. Leave?"):
            return None
    return await client.act("leave")


def confirmed(question: str) -> bool:
    """Asks; only a y or yes is one. Raises ConfigError when nobody can answer."""
    say(f"{question} [y/N]")
    # A process may be started without any standard input at all.
    answer = sys.stdin.readline() if sys.stdin else ""
    if not answer:
        raise ConfigError("Nobody is there to answer.", hint="Give --yes to go on without asking.")
    if answer.strip().lower() in ("y", "yes"):
        return True
    say("Nothing was changed.")
    return False
