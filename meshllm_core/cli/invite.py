"""`meshllm invite`: a new invite as text, as a QR code on the terminal, as a picture."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from meshllm_core.api.schema import InviteAnswer
from meshllm_core.api.schema_mesh import LONGEST_INVITE
from meshllm_core.cli import text
from meshllm_core.cli.connect import ask
from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson, Console
from meshllm_core.cli.output import emit, emit_json, is_terminal
from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact, decode
from meshllm_core.errors import ConfigError

PNG_SCALE = 10
"""Pixels for a module."""
LINES_LEFT = 1
"""Lines of the terminal that a code leaves free, for the shell's prompt; with a wide border one more."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,9})\s*([smhdw])", re.IGNORECASE)

Uses = Annotated[
    int | None,
    typer.Option(
        "--uses", metavar="N", min=0, max=100_000, help="Machines that may join with it; 0: any number."
    ),
]
Expires = Annotated[
    str,
    typer.Option("--expires", metavar="SPAN", help="How long it is valid: 30m, 1h, 2d, never (ten years)."),
]
Role = Annotated[
    Literal["host", "client"] | None,
    typer.Option("--role", help="host: computes for others. client: only asks."),
]
MayInvite = Annotated[bool, typer.Option("--may-invite", help="Who joins with it may invite others.")]
Approve = Annotated[
    bool, typer.Option("--approve", help="Who comes waits until you let it in: `meshllm approve`.")
]
ShowQr = Annotated[
    bool | None,
    typer.Option(
        "--qr/--no-qr", help="Draw the QR code; if not said, on a terminal that has colour and room."
    ),
]
Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Write the QR code as a picture.")]


def invite(
    uses: Uses = None,
    expires: Expires = "",
    role: Role = None,
    may_invite: MayInvite = False,
    approve: Approve = False,
    show_qr: ShowQr = None,
    png: Png = None,
    as_json: AsJson = False,
    console: Console = "",
) -> None:
    """Make an invite: whoever has it can join. Founds a mesh if this node is in none.

    On the other machine: `meshllm join TOKEN`, or `meshllm join PICTURE` with a photo of the QR code.
    """
    seconds = span(expires) if expires else None
    if png is not None:
        _check_writable(png)
    answer = ask(
        lambda client: client.invite(
            uses=uses,
            expires_seconds=seconds,
            role=role,
            may_invite=may_invite or None,
            approve=approve or None,
        ),
        console=console,
    )
    if png is not None:
        _write_private(png, qr.png(qr.matrix(compact(answer.token)), PNG_SCALE))
    if as_json:
        emit_json(answer)
        return
    emit(answer.token)
    say(words(answer, may_invite=may_invite))
    if approve:
        say("Who comes with it waits until you let it in: `meshllm members` shows it, `meshllm approve ID`.")
    if png is not None:
        say(f"The QR code is in {png}; whoever has the file can join, too.")
    for line in code_lines(answer.token, show_qr):
        emit(line)


def span(text: str) -> float:
    """Seconds of `30m`, `1h`, `2d` or `never`. Raises ConfigError."""
    if text.strip().lower() == "never":
        return float(LONGEST_INVITE)
    found = _SPAN.fullmatch(text.strip())
    seconds = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 1 <= seconds <= LONGEST_INVITE:
        raise ConfigError(
            f"--expires {text[:40]!r} is no span of time.",
            hint="Use a number with s, m, h, d or w, for example 30m, 1h or 2d, or never; at most ten years.",
            param="--expires",
        )
    return float(seconds)


def words(answer: InviteAnswer, *, may_invite: bool) -> str:
    """What an invite allows, and how it is used."""
    machines = {0: "any number of machines", 1: "one machine"}.get(answer.uses, f"{answer.uses} machines")
    until = f"until {text.moment(answer.expires_at)}" if answer.expires_at else "for ever"
    doing = "to ask, not to compute" if answer.role == "client" else "to ask and to compute for the others"
    further = "; who joins may invite others" if may_invite else ""
    places = ", ".join(str(place) for place in decode(answer.token).addresses)
    reached = f"This node is reached at {places}." if places else _NO_ADDRESS
    return (
        f"\nWhoever holds this invite can join: {machines}, {until}, {doing}{further}.\n"
        f"{reached}\nOn the other machine, with the token, a file with it, or a photo of the code:\n"
        "  meshllm join TOKEN|FILE|PICTURE      where a node runs\n"
        "  meshllm serve --join TOKEN|FILE      starts one that joins\n"
        f"To take it back: meshllm revoke {answer.id}"
    )


_NO_ADDRESS = "This node has no address that others can use: only machines on its own network will find it."


def code_lines(token: str, wanted: bool | None) -> list[str]:
    """The QR code for this terminal, or nothing, with the reason said where it was asked for."""
    colour = is_terminal() and not os.environ.get("NO_COLOR")
    if wanted is False or (wanted is None and not colour):
        return []
    if not _can_show_blocks():
        say("This terminal's character set has no blocks to draw a QR code with; --png FILE makes a picture.")
        return []
    code = qr.matrix(compact(token))
    quiet = _quiet(code) if is_terminal() else qr.QUIET
    if quiet is None:
        columns, lines = qr.size_shown(code)
        say(
            f"The terminal is too small for the QR code, which needs {columns} columns and "
            f"{lines + LINES_LEFT} lines; --png FILE makes a picture."
        )
        return []
    return qr.ansi_blocks(code, quiet=quiet) if colour else qr.half_blocks(code, quiet=quiet)


def _quiet(code: qr.Matrix) -> int | None:
    """The widest border, from 4 to 2 modules, with which the code fits; None if it does not."""
    size = shutil.get_terminal_size()
    for quiet in range(qr.QUIET, qr.QUIET_SHOWN - 1, -1):
        columns, lines = qr.size_shown(code, quiet=quiet)
        left = LINES_LEFT + (quiet > qr.QUIET_SHOWN)
        if columns <= size.columns and lines + left <= size.lines:
            return quiet
    return None


def _can_show_blocks() -> bool:
    try:
        "█▀▄".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_writable(path: Path) -> None:
    """Before there is an invite that nobody would see. Raises ConfigError."""
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(
            f"--png {path} is not a file in a folder that exists.", hint="Check the path.", param="--png"
        )


def _write_private(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}: {error.strerror}.",
            hint="The invite was made: `meshllm invites` lists it, `meshllm revoke` takes it back.",
            param="--png",
        ) from None
