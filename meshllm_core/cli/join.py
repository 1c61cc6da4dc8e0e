"""`meshllm join`: hands an invite to the running node and tells how it goes, line by line."""

import contextlib
import shutil
import sys
from typing import Annotated

import typer

from meshllm_core.api.client import ManagementClient
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import Progress, say
from meshllm_core.cli.invite_source import invite_from, invite_from_camera
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import clean, emit, emit_json
from meshllm_core.errors import ConfigError, ExitCode, JoinFailed, MeshError, NodeNotRunning
from meshllm_core.state.mesh_events import JoinStep, StepStatus
from meshllm_core.state.snapshot import JoinLine, JoinView

STEPS: dict[JoinStep, str] = {
    "token": "invite",
    "interface": "network interface",
    "address": "address",
    "identity": "identity",
    "version": "version",
    "clock": "clock",
    "admission": "admission",
    "reachability": "reachability",
}
_MARKS: dict[StepStatus, tuple[str, str]] = {
    "waiting": ("·", "."),
    "running": ("…", "..."),
    "passed": ("✓", "ok"),
    "failed": ("✗", "FAILED"),
    "skipped": ("–", "-"),
}
"""As a sign, and for terminals that have none."""

Given = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOKEN|FILE|PICTURE|-",
        help="The invite, a file or picture with it, or - for standard input. Only a typed token is seen in "
        "listings of processes and in the shell's history.",
        show_default=False,
    ),
]
Camera = Annotated[bool, typer.Option("--camera", help="Read the QR code with this machine's camera.")]


def join(
    invite: Given = None, camera: Camera = False, as_json: AsJson = False, console: Console = ""
) -> None:
    """Join a mesh with an invite, as the node that runs here."""
    if bool(invite) == camera:
        raise ConfigError(
            "What is to be joined?" if not camera else "--camera takes no invite beside it.",
            hint="Give the invite's token, a file or picture with it, -, or --camera.",
        )
    token = invite_from_camera() if camera else invite_from(" ".join(invite or ()))
    try:
        view = ask(lambda client: _joined(client, token), console=console)
    except NodeNotRunning as error:
        raise NodeNotRunning(
            error.message, hint="Start one that joins at once: `meshllm serve --join FILE`."
        ) from None
    except KeyboardInterrupt:
        say("Waiting was stopped, joining was not: `meshllm members` tells how it went.")
        raise
    if as_json:
        emit_json(view)
        raise typer.Exit(ExitCode.OK if view.state == "joined" else ExitCode.MESH)
    if view.state == "failed":
        raise JoinFailed(clean(view.message), hint=clean(view.hint))
    emit(clean(view.message))
    if view.hint:
        say(clean(view.hint))


async def _joined(client: ManagementClient, token: str) -> JoinView:
    """Asks the node to join, and follows the checklist to its end. Raises MeshError."""
    earlier = (await client.snapshot()).join
    await client.join(token)
    checklist = Checklist()
    snapshots = client.follow(_raise)
    try:
        async with contextlib.aclosing(snapshots):
            async for snapshot in snapshots:
                view = snapshot.join
                if view is None or (earlier is not None and view.started_at == earlier.started_at):
                    continue
                checklist.show(view)
                if view.state != "running":
                    return view
    finally:
        checklist.end()
    raise NodeNotRunning("The node ended while it was joining.", hint="See `meshllm logs`.")


def _raise(error: MeshError | None) -> None:
    if error is not None:
        raise error


class Checklist:
    """Tells each line of the checklist once it is decided; on a terminal also what is being tried now."""

    def __init__(self) -> None:
        self._told: dict[JoinStep, JoinLine] = {}
        self._progress = Progress()
        self._live = sys.stderr.isatty()

    def show(self, view: JoinView) -> None:
        """Tells what is new in `view`."""
        for line in view.lines:
            if line.status == "waiting" or self._told.get(line.step) == line:
                continue
            self._told[line.step] = line
            if line.status == "running":
                self._trying(line)
            elif self._live:
                self._progress.show(described(line), 100)
                self._progress.end()
            else:
                say(described(line))

    def end(self) -> None:
        """No more lines come."""
        self._progress.end()

    def _trying(self, line: JoinLine) -> None:
        if self._live:
            # What runs over the edge could not be written over.
            self._progress.show(described(line)[: shutil.get_terminal_size().columns - 1], 0)


def described(line: JoinLine) -> str:
    """A line of the checklist as text."""
    detail = f": {clean(line.detail)}" if line.detail else ""
    return f"{_mark(line.status)} {STEPS[line.step]}{detail}"


def _mark(status: StepStatus) -> str:
    sign, plain = _MARKS[status]
    try:
        sign.encode(sys.stderr.encoding or "utf-8")
    except UnicodeEncodeError:
        return plain
    return sign
