"""What an action of the dashboard is. No Textual here, so that documentation can be made from it too."""

from dataclasses import dataclass

ANYWHERE = "anywhere"
PAGE = "page"
"""Where keys work on every page, and on every page but not in dialogs' fields."""


@dataclass(frozen=True)
class Place:
    """Where keys work: everywhere, or in one pane of one page."""

    name: str
    """Id of the pane."""
    title: str
    page: str = ""
    """Name of the page that has it; empty: none in particular."""


@dataclass(frozen=True)
class Action:
    """One thing that a person can do."""

    place: str
    """Where its keys work."""
    method: str
    """Name of the action method on the widget of that place, without `action_`."""
    keys: str
    """Keys as Textual names them, separated by commas; empty: only in the palette."""
    shown: str
    """The keys as people know them."""
    label: str
    """One or two words, for the footer."""
    help: str
    """One sentence, for help, tool tip and palette."""
    footer: bool | str = True
    """Whether the line at the bottom shows it: wherever its key works, only in one pane, or never."""
    palette: bool = True
    """Whether it makes sense to call it from the palette."""
    priority: bool = False
    """Whether the key works before a widget sees it."""

    @property
    def id(self) -> str:
        """Unique; also the name under which its key can be changed."""
        return f"{self.place}.{self.method}".replace("('", "-").removesuffix("')")
