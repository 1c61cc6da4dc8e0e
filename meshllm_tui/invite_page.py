"""What stands beside an invite's code, and whether the code fits. No Textual here."""

import os
from dataclasses import dataclass
from pathlib import Path

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.cleaning import one_line
from meshllm_tui.join_words import INVITE_STATES, countdown, token_groups, use_words
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count

SIDE_WIDTH, SIDE_LONGEST = 28, 44
"""Cells that the text beside a code needs, and takes at most."""


@dataclass(frozen=True, slots=True)
class Code:
    """A QR code as lines of half blocks, to be drawn black on white."""

    lines: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.lines[0])

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.lines)


def code_of(token: str) -> Code:
    """The token's code. Takes some milliseconds."""
    from meshllm_core.discovery.qr import half_blocks, matrix
    from meshllm_core.discovery.token import compact

    return Code(tuple(half_blocks(matrix(compact(token)), inverted=False)))


def save_picture(token: str, invite: str) -> Path:
    """Write the code as a PNG into the home directory, readable by its owner only. Raises OSError."""
    from meshllm_core.discovery.qr import matrix, png
    from meshllm_core.discovery.token import compact

    name = "".join(character for character in invite if character.isalnum())[:16]
    path = Path.home() / f"meshllm-invite-{name}.png"
    picture = png(matrix(compact(token)))
    # Not through a link that somebody may have put there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
        file.write(picture)
    return path


def is_over(row: InviteRow | None, made: InviteAnswer, wall: float) -> bool:
    """Whether nobody can join with it any more."""
    return (row is not None and row.state != "open") or 0 < made.expires_at <= wall


def head(made: InviteAnswer, row: InviteRow | None, wall: float) -> tuple[Line, ...]:
    """Which invite, for whom, how long still, whether it was used."""
    whom = count(made.uses, "machine") if made.uses else "any number of machines"
    lines: list[Line] = [
        line(Span(f"Invite {one_line(made.id, 10)}", "strong")),
        line(f"for {whom} as {made.role}"),
    ]
    if is_over(row, made, wall):
        state = row.state if row is not None and row.state != "open" else "expired"
        lines.append(line(INVITE_STATES[state].span))
    elif made.expires_at > 0:
        lines.append(line(Span(f"◷ {countdown(made.expires_at - wall)}", "accent")))
    if row is not None and row.used:
        lines.append(line(Span(f"✓ {use_words(row)}", "ok")))
    return tuple(lines)


def page(made: InviteAnswer, row: InviteRow | None, wall: float, width: int) -> tuple[Line, ...]:
    """The text beside the code: for whom, how long still, whether it was used, the token."""
    lines = list(head(made, row, wall))
    if is_over(row, made, wall):
        return (*lines, line(""), line("It lets nobody in any more."), line(muted("Make another.")))
    lines += [
        line(""),
        line(muted("On the other machine press "), Span("J", "accent")),
        line(muted("in meshllm, or run")),
        line(Span("meshllm join -", "accent")),
        line(muted("and paste this; "), Span("y", "accent"), muted(" copies it:")),
        line(""),
    ]
    lines += [line(Span(part, "strong")) for part in token_groups(made.token, min(width, SIDE_LONGEST))]
    return tuple(lines)


INTRO: tuple[Line, ...] = (
    line(Span("Enter", "accent"), muted(" makes an invite: a code")),
    line(muted("to photograph, with a token")),
    line(muted("to paste.")),
    line(""),
    line(muted("On the other machine press "), Span("J", "accent")),
    line(muted("in meshllm, or run")),
    line(Span("meshllm join -", "accent")),
)
"""Beside the form while no invite was made."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the form."""

    words: tuple[Line, ...] = ()
    drawn: bool = False
    """Whether the code is drawn, whole, between the form and the words."""


def beside(
    made: InviteAnswer,
    row: InviteRow | None,
    code: Code,
    wall: float,
    columns: int,
    *,
    tall: bool,
    colour: bool,
) -> Beside:
    """For a pane with `columns` beside its form: code and words where it is tall, else the words in brief."""
    over = is_over(row, made, wall)
    if columns >= code.width + SIDE_WIDTH and tall:
        if over:
            return Beside(page(made, row, wall, columns - 4))
        if not colour:
            return Beside((*NO_COLOUR, line(""), *page(made, row, wall, columns - 4)))
        return Beside(page(made, row, wall, columns - code.width - 4), drawn=True)
    if over:
        return Beside(page(made, row, wall, columns - 4))
    keys = (Span("f", "accent"), muted(" code, "), Span("y", "accent"), muted(" copy token,"))
    return Beside(
        (*head(made, row, wall), line(""), line(*keys), line(Span("s", "accent"), muted(" save its picture")))
    )


def too_small(code: Code, columns: int, rows: int) -> tuple[Line, ...]:
    """Said in place of a code that would not be whole."""
    return (
        line(
            Span(f"The code needs {code.width}×{code.height}", "warn"),
            muted(f" characters, here are {columns}×{rows}."),
        ),
        line(
            Span("s", "accent"),
            muted(" saves it as a picture, "),
            Span("y", "accent"),
            muted(" copies the token."),
        ),
    )


NO_COLOUR: tuple[Line, ...] = (
    line(Span("Colours are off (NO_COLOR), and without them a code may come out inverted.", "warn")),
    line(
        Span("s", "accent"),
        muted(" saves it as a picture, "),
        Span("y", "accent"),
        muted(" copies the token."),
    ),
)
