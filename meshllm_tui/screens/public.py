"""Listing the mesh publicly: what that changes, and the few words that are listed."""

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, Static

from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.cleaning import one_line
from meshllm_tui.hanging import hang_all
from meshllm_tui.public_words import listing_lines
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.choice import Choice
from meshllm_tui.widgets.styled import content

LABEL_LIMIT = 64
_WIDEST = 80
"""Cells of the dialog where the terminal has them, as its style sheet says."""
_FRAME = 7
"""Cells of its border, its padding and its scroll bar."""
CLIENTS: tuple[tuple[int, str], ...] = ((2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32"))


@dataclass(frozen=True, slots=True)
class Listing:
    """What a person wants listed."""

    name: str
    region: str
    max_clients: int


class PublicScreen(Dialog[Listing]):
    """Gives back what to list, or None. The safe answer has the keyboard."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.focus_previous", "Choose", show=False),
        Binding("right", "app.focus_next", "Choose", show=False),
        Binding("up", "app.focus_previous", "Back", show=False),
        Binding("down", "app.focus_next", "Next", show=False),
    ]

    def __init__(self, snapshot: NodeSnapshot) -> None:
        super().__init__()
        self._name = one_line(snapshot.mesh.name, LABEL_LIMIT) if snapshot.mesh else ""
        self._lines = listing_lines(snapshot)

    def compose(self) -> ComposeResult:
        """What changes, the words, the answers."""
        with Vertical(classes="dialog", id="public") as frame:
            frame.border_title = Content("List this mesh publicly?")
            frame.border_subtitle = Content("Esc keeps it private")
            yield Static(id="public-words", markup=False)
            with Horizontal(classes="field first"):
                yield Static("Name", classes="label", markup=False)
                yield Input(self._name, max_length=LABEL_LIMIT, compact=True, id="name")
            with Horizontal(classes="field"):
                yield Static("Region", classes="label", markup=False)
                yield Input(placeholder="empty: not told", max_length=LABEL_LIMIT, compact=True, id="region")
            yield Choice("Clients at most", CLIENTS, id="clients", at=1)
            with Horizontal(classes="buttons"):
                yield Button(Content("Keep it private"), id="keep", compact=True)
                yield Button(Content("List it"), id="list", compact=True)

    def on_mount(self) -> None:
        """Enter keeps it private. What is said comes before that, where there is no room for all of it."""
        for box in self.query(Input):
            box.cursor_blink = False
        self.query_one("#keep").focus(scroll_visible=False)

    def on_resize(self, event: events.Resize) -> None:
        """Lines are hung for the width."""
        width = min(_WIDEST, event.size.width * 95 // 100) - _FRAME
        self.query_one("#public-words", Static).update(content(hang_all(self._lines, width)))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a box goes on to the next."""
        event.stop()
        self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Give the answer back."""
        event.stop()
        if event.button.id != "list":
            self.dismiss(None)
            return
        clients = self.query_one("#clients", Choice).value
        name, region = (one_line(self.query_one(f"#{id}", Input).value) for id in ("name", "region"))
        self.dismiss(Listing(name, region, int(clients)))
