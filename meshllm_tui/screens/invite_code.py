"""An invite's QR code, large enough for a phone or a camera, with its token beside it."""

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from meshllm_core.api.schema_mesh import InviteAnswer
from meshllm_core.state.mesh_events import InviteRow
from meshllm_tui.invite_page import (
    NO_COLOUR,
    SIDE_WIDTH,
    Code,
    code_of,
    is_over,
    page,
    too_small,
)
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line
from meshllm_tui.screens.dialog import Overlay
from meshllm_tui.session import Session
from meshllm_tui.widgets.code_view import code_content, save_code
from meshllm_tui.widgets.key_line import KeyLine
from meshllm_tui.widgets.styled import content


class CodeScreen(Overlay[None]):
    """The code is whole or not drawn; always black on white, whatever the theme."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back", key_display="Esc", tooltip="Back to the invites."),
        Binding("q,f", "close", "Back", show=False),
        Binding("y", "copy", "Copy token", tooltip="Copy the token."),
        Binding("s", "save", "Save picture", tooltip="Save the code as a PNG in your home directory."),
    ]

    def __init__(self, session: Session, made: InviteAnswer) -> None:
        super().__init__()
        self._session = session
        self._made = made
        self._code: Code | None = None

    def compose(self) -> ComposeResult:
        """The code, the words beside it, the keys."""
        with Horizontal(id="code-and-words"):
            yield Static(id="code", markup=False)
            yield Static(id="code-words", markup=False)
        yield KeyLine()

    async def on_mount(self) -> None:
        """Making the code takes longer than a frame: draw the words first."""
        self._draw()
        self.set_interval(1.0, self._draw)
        self._code = await asyncio.to_thread(code_of, self._made.token)
        self._draw()

    def on_resize(self, _: events.Resize) -> None:
        """Another size may have room for the code, or not."""
        self._draw()

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """The invite may have been used."""
        event.stop()
        self._draw()

    def _row(self) -> InviteRow | None:
        snapshot = self._session.snapshot
        rows = snapshot.mesh.invites if snapshot and snapshot.mesh else ()
        return next((row for row in rows if row.id == self._made.id), None)

    def _draw(self) -> None:
        row, wall = self._row(), self._session.view().wall
        columns, rows = self.size.width, self.size.height - 1
        code = self._code
        notes: tuple[Line, ...] = ()
        drawn = code is not None and not is_over(row, self._made, wall)
        if code is not None and drawn:
            if self.app.no_color:
                notes, drawn = (*NO_COLOUR, ()), False
            elif code.width > columns or code.height > rows:
                notes, drawn = (*too_small(code, columns, rows), ()), False
        self._draw_code(code if drawn else None)
        room = columns - (code.width if code is not None and drawn else 0) - 4
        words = self.query_one("#code-words", Static)
        words.display = room >= SIDE_WIDTH
        text = content((*notes, *page(self._made, row, wall, room)))
        if words.content != text:
            words.update(text)

    def _draw_code(self, code: Code | None) -> None:
        place = self.query_one("#code", Static)
        place.display = code is not None
        if code is not None and place.content == "":
            place.update(code_content(code))

    def action_close(self) -> None:
        """Back to the invites."""
        self.dismiss(None)

    def action_copy(self) -> None:
        """Copy the token."""
        self.app.copy_to_clipboard(self._made.token)
        self.notify("Copied the token. Whoever has it can join.", markup=False)

    async def action_save(self) -> None:
        """Save the code as a picture."""
        await save_code(self, self._made)
