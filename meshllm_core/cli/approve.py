"""`meshllm approve` and `meshllm refuse`: machines that wait to be let in."""

from typing import Annotated, Any

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.members import ID_SHOWN, in_mesh, settled
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ConfigError

Node = Annotated[
    str,
    typer.Argument(
        metavar="NODE",
        help="Its id, or the first six digits of it, as `meshllm members` shows it; or its name.",
    ),
]


def approve(node: Node, as_json: AsJson = False, console: Console = "") -> None:
    """Let a machine in that waits for it. Compare its id with what `meshllm id` says there."""
    answer = ask(lambda client: _decided(client, "approve", node), console=console)
    if as_json:
        emit_json(answer)
    else:
        emit(f"{clean(str(answer['name']))} is let in within seconds.")


def refuse(node: Node, as_json: AsJson = False, console: Console = "") -> None:
    """Do not let a machine in that waits for it."""
    answer = ask(lambda client: _decided(client, "refuse", node), console=console)
    if as_json:
        emit_json(answer)
    else:
        emit(f"{clean(str(answer['name']))} is not let in.")


async def _decided(client: ManagementClient, action: str, node: str) -> dict[str, Any]:
    """The node's answer. Raises ConfigError for a name that several have."""
    mesh = in_mesh(await settled(client))
    named = [row.node for row in mesh.waiting if row.name.casefold() == node.strip().casefold()]
    if len(named) > 1:
        ids = ", ".join(each[:ID_SHOWN] for each in named)
        raise ConfigError(f"{len(named)} machines called {node!r} wait.", hint=f"Give one's id: {ids}.")
    return await client.act(action, node=named[0] if named else node)
