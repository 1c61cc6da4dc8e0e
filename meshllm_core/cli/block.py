"""`meshllm block` and `meshllm unblock`: members that this node does not talk to."""

from typing import Annotated, Any

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.members import in_mesh, settled
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.revoke import identity_of

Member = Annotated[
    str,
    typer.Argument(
        metavar="MEMBER",
        help="Its id, or the first six digits of it, as `meshllm members` shows it; or its name.",
    ),
]


def block(member: Member, as_json: AsJson = False, console: Console = "") -> None:
    """Neither link nor route to a machine. It stays a member for the others."""
    answer = ask(lambda client: _done(client, "block", member), console=console)
    if as_json:
        emit_json(answer)
    else:
        emit(f"{clean(str(answer['name']))} is blocked: this node neither links nor routes to it.")


def unblock(member: Member, as_json: AsJson = False, console: Console = "") -> None:
    """Talk to a blocked machine again."""
    answer = ask(lambda client: _done(client, "unblock", member), console=console)
    if as_json:
        emit_json(answer)
    else:
        emit(f"{clean(str(answer['name']))} is no longer blocked.")


async def _done(client: ManagementClient, action: str, member: str) -> dict[str, Any]:
    snapshot = await settled(client)
    in_mesh(snapshot)
    return await client.act(action, node=identity_of(snapshot, member))
