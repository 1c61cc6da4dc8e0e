"""The drawing of the mesh: boxes that can be gone through by keys and clicked."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.mesh_drawing import Drawing, Spark, draw_mesh
from meshllm_tui.mesh_rows import OWN
from meshllm_tui.present import Line, Span, line, muted
from meshllm_tui.units import count
from meshllm_tui.widgets.styled import content


class MeshMap(Static, can_focus=True):
    """Draws what it is shown; `chosen` is the key of the box that keys act on."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "step(1)", "Down", show=False),
        Binding("up,k", "step(-1)", "Up", show=False),
        Binding("left", "aside(-1)", "Left", show=False),
        Binding("right", "aside(1)", "Right", show=False),
        Binding("home", "end(0)", "First", show=False),
        Binding("end", "end(-1)", "Last", show=False),
        Binding(
            "enter", "open", "More", key_display="Enter", tooltip="Show all that is known of the member."
        ),
    ]

    class Moved(Message):
        """Another box is chosen."""

    class Opened(Message):
        """Enter, or a click on the chosen box."""

    def __init__(self) -> None:
        super().__init__(id="mesh-map", markup=False)
        self.chosen = OWN
        self._drawing = Drawing((), (), 0)
        self._shown: tuple[Line, ...] = ()
        self._again: tuple[NodeSnapshot, int, int, Spark] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What is drawn, this node first."""
        return tuple(box.key for box in self._drawing.boxes)

    def draw(self, snapshot: NodeSnapshot, width: int, height: int, spark: Spark) -> None:
        """Draw the mesh in so many cells; the last line says what there was no room for."""
        self._again = (snapshot, width, height, spark)
        chosen = self.chosen if self.has_focus else None
        drawing = draw_mesh(snapshot, width, height - 1, chosen, spark)
        if self.chosen not in {box.key for box in drawing.boxes}:
            self.chosen = OWN
        self._drawing = drawing
        more = drawing.left_out
        if more:
            words = line(
                f"and {count(more, 'more member')}: ",
                Span("t", "accent"),
                muted(" shows all of them as a table"),
            )
        elif len(drawing.boxes) == 1:
            words = line(
                "No other machine yet: ", Span("v", "accent"), muted(" invites one, by QR code or by text.")
            )
        else:
            words = ()
        shown = (*drawing.lines, words)
        if shown != self._shown:
            self._shown = shown
            self.update(content(shown), layout=False)

    def choose(self, key: str | None) -> None:
        """Let keys act on that box, if it is drawn."""
        if key in self.keys and key is not None and key != self.chosen:
            self.chosen = key
            self._anew()
            self.post_message(self.Moved())

    def _anew(self) -> None:
        if self._again is not None:
            self.draw(*self._again)

    def on_focus(self) -> None:
        """The chosen box shows only while keys act on it."""
        self.call_later(self._anew)

    def on_blur(self) -> None:
        """The same."""
        self.call_later(self._anew)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a box; one on the chosen box opens it."""
        event.stop()
        hit = [box for box in self._drawing.boxes if box.holds(event.x, event.y)]
        if not hit:
            return
        # Boxes share their borders: the lower one begins there.
        if hit[-1].key == self.chosen:
            self.post_message(self.Opened())
        else:
            self.choose(hit[-1].key)

    def action_step(self, by: int) -> None:
        """Go to the next box."""
        keys = self.keys
        if self.chosen in keys:
            self.choose(keys[min(max(keys.index(self.chosen) + by, 0), len(keys) - 1)])

    def action_end(self, place: int) -> None:
        """Go to this node, or to the last member."""
        if self.keys:
            self.choose(self.keys[place])

    def action_aside(self, by: int) -> None:
        """Go to the box that is nearest at that side."""
        here = next((box for box in self._drawing.boxes if box.key == self.chosen), None)
        if here is None:
            return
        beside = [box for box in self._drawing.boxes if (box.left - here.left) * by > 0]
        if beside:
            level = here.top + here.height // 2
            near = min(
                beside, key=lambda box: (abs(box.left - here.left), abs(box.top + box.height // 2 - level))
            )
            self.choose(near.key)

    def action_open(self) -> None:
        """Show all of the chosen member."""
        self.post_message(self.Opened())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """This node's own facts are all in its pane."""
        return action != "open" or self.chosen != OWN
