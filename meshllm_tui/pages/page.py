"""What all pages share: status line, page bar, panes, key line; drawn anew at each change of the node."""

from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from meshllm_tui.actions.action import PAGE
from meshllm_tui.keys import bindings_of
from meshllm_tui.mesh_words import mesh_status
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import NodeView, status_line
from meshllm_tui.screens.jump import JumpScreen
from meshllm_tui.session import Session
from meshllm_tui.widgets.key_line import KeyLine
from meshllm_tui.widgets.page_bar import PageBar
from meshllm_tui.widgets.styled import content

if TYPE_CHECKING:
    from meshllm_tui.app import MeshApp

WIDE, MEDIUM = 120, 80
"""Columns from which a page has all its panes, or two columns of panes."""
BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (MEDIUM, "-medium"), (WIDE, "-wide")]
"""Classes that every screen has from so many columns."""
TICK_SECONDS = 1.0


class Pane(Protocol):
    """A part of a page: a widget of class `pane` whose id is one of the page's PANES."""

    def show(self, view: NodeView) -> None:
        """Draw what is new in `view`; called at each change and every second, so it compares first."""

    def focus_main(self) -> None:
        """Give the keyboard to this pane."""


class Page(Screen[None]):
    """Shows what the session knows; every change goes through the node's actions (`dashboard.act`)."""

    NAME: ClassVar[str]
    """As in actions.pages."""
    PANES: ClassVar[tuple[str, ...]]
    """Ids of the panes, in the order of Tab."""
    FIRST: ClassVar[str]
    """The pane that has the keyboard at first."""
    BINDINGS = bindings_of(PAGE)
    AUTO_FOCUS = ""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.active = self.FIRST
        """The pane that has, or last had, the keyboard."""

    @property
    def dashboard(self) -> "MeshApp":
        """The app, for what pages ask of it: act, run, go, desk."""
        return cast("MeshApp", self.app)

    def body(self) -> ComposeResult:
        """The panes."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Status line, page bar, panes, keys."""
        yield Static(id="status", markup=False)
        yield PageBar(self.NAME)
        yield from self.body()
        yield from self.dashboard.frame_lines()
        yield KeyLine()

    def on_mount(self) -> None:
        """Draw at once what is known, which may be nothing yet; then keep ages true."""
        self.place_panes()
        self.show(self.session.view())
        self.pane(self.FIRST).focus_main()
        self.set_interval(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        if self.is_current:
            self.show(self.session.view())

    def pane(self, name: str) -> Pane:
        """A pane by its name."""
        return cast("Pane", self.query_one(f"#{name}"))

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """Draw the newest state."""
        event.stop()
        self.show(event.view)

    def on_screen_resume(self) -> None:
        """Nothing was drawn while another page was shown."""
        if self.is_mounted:
            self.show(self.session.view())

    def show(self, view: NodeView) -> None:
        """Draw the status line and the panes."""
        mesh = mesh_status(view.snapshot) if view.snapshot and view.link == "live" else ()
        status = content([status_line(view, mesh)])
        line = self.query_one("#status", Static)
        if line.content != status:
            line.update(status)
        for name in self.PANES:
            self.pane(name).show(view)

    def _compositor_refresh(self) -> None:
        """Draw; while nothing is painted, as a page comes up, what is drawn would be thrown away."""
        if not self.app._batch_count:
            super()._compositor_refresh()

    def place_panes(self) -> None:
        """Show the panes that the terminal has room for; called at each new size and active pane."""

    def on_resize(self, _: events.Resize) -> None:
        """Another size may show more panes or fewer."""
        self.place_panes()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the keyboard is the active one."""
        for widget in event.widget.ancestors_with_self:
            if widget.id in self.PANES:
                self._activate(widget.id)
                return

    def _activate(self, name: str) -> None:
        if name != self.active:
            self.active = name
            self.place_panes()

    def go(self, name: str) -> None:
        """Give the keyboard to a pane, and show it."""
        self._activate(name)
        self.pane(name).focus_main()

    def _step(self, by: int) -> None:
        self.go(self.PANES[(self.PANES.index(self.active) + by) % len(self.PANES)])

    def action_next_pane(self) -> None:
        """Go to the next pane."""
        self._step(1)

    def action_last_pane(self) -> None:
        """Go to the pane before."""
        self._step(-1)

    def action_jump(self) -> None:
        """Show a letter on each pane."""
        targets: dict[str, Region] = {}
        for name in self.PANES:
            widget = cast("Widget", self.pane(name))
            targets[name] = widget.region if widget.display else Region()
        self.app.push_screen(JumpScreen(targets), self._jumped)

    def _jumped(self, name: str | None) -> None:
        if name is not None:
            self.go(name)

    def on_page_bar_chosen(self, event: PageBar.Chosen) -> None:
        """A click on another page."""
        event.stop()
        self.dashboard.go(event.page)


class KeyedPage(Page):
    """A page that is itself the place of keys, which work in all its panes."""

    def pane(self, name: str) -> Pane:
        """A pane, or the page by its own name."""
        return self if name == self.NAME else super().pane(name)

    def focus_main(self) -> None:
        """Give the keyboard to the active pane."""
        self.pane(self.active).focus_main()

    def go(self, name: str) -> None:
        """Give the keyboard to a pane."""
        super().go(self.active if name == self.NAME else name)
