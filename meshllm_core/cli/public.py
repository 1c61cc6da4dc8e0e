"""`meshllm public`: makes the mesh of the running node public, or private again, with what that changes."""

import asyncio
import contextlib
from typing import Annotated

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.cli.revoke import confirmed
from meshllm_core.errors import DiscoveryError, ExitCode, NodeNotRunning
from meshllm_core.paths import default_paths
from meshllm_core.state.snapshot import MeshView, NodeSnapshot

WAIT_SECONDS = 90.0
"""The node waits up to a minute for a model before it publishes."""

app = typer.Typer(
    help="List the mesh publicly so that anybody can find and join it, or stop that.", no_args_is_help=True
)

Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name in the listing.")]
Region = Annotated[str | None, typer.Option("--region", metavar="NAME", help="Region in the listing.")]
MaxClients = Annotated[
    int | None,
    typer.Option("--max-clients", metavar="N", min=1, max=1000, help="Strangers who may be in at a time."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the relays have the listing.")]


@app.command()
def on(
    name: Name = None,
    region: Region = None,
    max_clients: MaxClients = None,
    yes: Yes = False,
    wait: Wait = True,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Put the mesh on a public list. Strangers see it and may join; says first what that means."""
    before = ask(lambda client: client.snapshot(), console=console)
    if not yes and not _confirmed(before, max_clients):
        raise typer.Exit(ExitCode.INTERRUPTED)

    async def publish(client: ManagementClient) -> MeshView | None:
        await client.public(True, name=name, region=region, max_clients=max_clients)
        return await _until_public(client, before.mesh) if wait else None

    try:
        view = ask(publish, console=console)
    except KeyboardInterrupt:
        say("Waiting was stopped, publishing was not: `meshllm public off` ends it.")
        raise
    if as_json:
        emit_json(_document(view) if view else {"publication": "publishing", "detail": ""})
    elif view is None:
        emit("The mesh is being published; `meshllm public status` shows how far it is.")
    else:
        emit(clean(f"The mesh is public. {view.publication_detail}".strip()))


@app.command()
def off(as_json: AsJson = False, console: Console = "") -> None:
    """Take the mesh off the public list. No more strangers are let in."""
    answer = ask(lambda client: client.act("public", on=False), console=console)
    if as_json:
        emit_json({"publication": "private", "detail": ""})
        return
    emit("The mesh is private. Its listing is gone at once where a relay deletes it, else within 120 s.")
    if staying := answer.get("staying"):
        names = clean(", ".join(map(str, staying)))
        say(f"Came in without an invite and may stay for up to a week: {names}. `meshllm revoke` ends that.")


@app.command()
def status(as_json: AsJson = False, console: Console = "") -> None:
    """Say whether the mesh is public."""
    view = ask(lambda client: client.snapshot(), console=console).mesh
    if as_json:
        emit_json(_document(view))
    elif view is None:
        emit("private: this node is in no mesh.")
    else:
        emit(clean(f"{view.publication}: {view.publication_detail or _USUAL[view.publication]}"))


@app.command("rotate-key")
def rotate_key(as_json: AsJson = False) -> None:
    """Make a new key for Nostr relays. It does not connect later listings with earlier ones."""
    from meshllm_core.transport.nostr_key import key_file, rotate

    path = key_file(default_paths())
    rotate(path)
    if as_json:
        emit_json({"file": str(path)})
    else:
        emit(f"A new Nostr key is in {path}.")
    say("A mesh that is public now changes to it with `meshllm public off` and `meshllm public on`.")
    say("The node's own id stays in every listing: `meshllm id --new` changes that.")


_USUAL = {
    "private": "strangers neither see it nor can join.",
    "publishing": "the relays are asked.",
    "public": "strangers see it and may join.",
    "publish_failed": "see `meshllm logs`.",
}


def explain(addresses: tuple[str, ...], max_clients: int | None) -> str:
    """What becoming public changes, for a person who decides."""
    where = ", ".join(addresses) or "as the node finds them"
    limit = f"at most {max_clients} at a time" if max_clients else "up to the limit of the configuration"
    return "\n".join(
        (
            "Making this mesh public changes three things:",
            "  Who sees it     anybody: its name, region, models, memory, how many are in it, its version,",
            f"                  and this machine's addresses: {where}",
            f"  Who may join    anybody, without an invite, {limit}",
            "  What they do    they ask this mesh's models, and may add machines that answer your prompts:",
            "                  use it only for prompts you would post in public",
            "`meshllm public off` ends it; the listing is gone within 120 s.",
        )
    )


def _confirmed(snapshot: NodeSnapshot, max_clients: int | None) -> bool:
    say(clean(explain(snapshot.mesh.addresses if snapshot.mesh else (), max_clients)))
    return confirmed("Go on?")


async def _until_public(client: ManagementClient, earlier: MeshView | None) -> MeshView:
    """Follows the publication until the relays have it. Raises what it failed with."""
    said = ""
    snapshots = client.follow()
    try:
        async with asyncio.timeout(WAIT_SECONDS), contextlib.aclosing(snapshots):
            async for snapshot in snapshots:
                view = snapshot.mesh
                if view is None:
                    continue
                if view.publication == "public":
                    return view
                news = earlier is None or view.publication_detail != earlier.publication_detail
                if view.publication == "publish_failed" and news:
                    raise DiscoveryError(
                        f"The mesh could not be published. {view.publication_detail}",
                        hint="The node goes on trying; `meshllm public status` shows how it stands.",
                    )
                if view.publication_detail != said and view.publication == "publishing":
                    said = view.publication_detail
                    say(clean(said))
    except TimeoutError:
        raise DiscoveryError(
            f"The mesh is not public {WAIT_SECONDS:.0f} s after it was asked for.",
            hint="See `meshllm public status` and `meshllm logs`.",
        ) from None
    raise NodeNotRunning("The node ended while the mesh was being published.", hint="See `meshllm logs`.")


def _document(view: MeshView | None) -> dict[str, str]:
    if view is None:
        return {"publication": "private", "detail": "", "mesh": "", "name": ""}
    return {
        "publication": view.publication,
        "detail": view.publication_detail,
        "mesh": view.mesh,
        "name": view.name,
    }
