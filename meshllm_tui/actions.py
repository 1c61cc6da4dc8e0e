"""Every action of the dashboard, once: keys, footer, help and palette are made from this table.

No Textual at import, so that documentation can be made from it too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Place = Literal["anywhere", "home", "node", "models", "chat", "log", "mesh"]

PLACES: dict[Place, str] = {
    "anywhere": "Anywhere",
    "home": "Outside the prompt",
    "node": "Node",
    "models": "Models",
    "chat": "Chat",
    "log": "Log",
    "mesh": "Mesh",
}


@dataclass(frozen=True)
class Action:
    """One thing that a person can do."""

    place: Place
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
    footer: bool | Place = True
    """Whether the line at the bottom shows it: wherever its key works, only in one pane, or never."""
    palette: bool = True
    """Whether it makes sense to call it from the palette."""
    priority: bool = False
    """Whether the key works before a widget sees it."""

    @property
    def id(self) -> str:
        """Unique; also the name under which its key can be changed."""
        return f"{self.place}.{self.method}"


def _table() -> Iterator[Action]:
    a = Action
    yield a("anywhere", "help", "question_mark,f1", "?, F1", "Help", "Show every key.")
    yield a(
        "anywhere", "quit", "ctrl+q", "Ctrl+Q", "Quit", "Leave; asks whether the node stays.", priority=True
    )
    yield a("anywhere", "leave", "q", "q", "Quit", "Leave, as Ctrl+Q does.", footer=False, palette=False)
    yield a("anywhere", "stop_node", "", "", "Stop", "Stop the node and leave; asks first.", footer=False)
    yield a("home", "load", "l,f2", "l, F2", "Load", "Load a model: by name, file or repository.")
    yield a("home", "write", "i,f3", "i, F3", "Write", "Go to the chat's prompt.", footer=False)
    yield a("home", "invite", "v", "v", "Invite", "Invite a machine: token and QR code.", footer="mesh")
    yield a("home", "join", "J", "J", "Join", "Join a mesh with an invite.", footer="mesh")
    yield a(
        "home", "copy_endpoint", "e", "e", "Copy URL", "Copy the endpoint's URL for a chat app.", footer=False
    )
    yield a("home", "next_pane", "tab", "Tab", "Next", "Go to the next pane.", footer=False, palette=False)
    yield a(
        "home",
        "last_pane",
        "shift+tab",
        "Shift+Tab",
        "Back",
        "Go to the pane before.",
        footer=False,
        palette=False,
    )
    yield a("home", "go_node", "1", "1", "Node", "Go to the node.", footer=False)
    yield a("home", "go_models", "2", "2", "Models", "Go to the models.", footer=False)
    yield a("home", "go_chat", "3", "3", "Chat", "Go to the chat.", footer=False)
    yield a("home", "go_log", "4", "4", "Log", "Go to the log.", footer=False)
    yield a("home", "go_mesh", "5", "5", "Mesh", "Go to the mesh.", footer=False)
    yield a("node", "copy", "y", "y", "Copy", "Copy what the node pane says.")
    yield a("node", "copy_id", "c", "c", "Copy id", "Copy this node's id.")
    yield a("models", "use", "enter", "Enter", "Chat", "Chat with the chosen model.")
    yield a("models", "unload", "u,delete", "u, Del", "Unload", "Unload the chosen model; asks first.")
    yield a("models", "retry", "r", "r", "Retry", "Load the chosen model again after it failed.")
    yield a("models", "stages", "s", "s", "Stages", "Show how the chosen split model is spread, and why.")
    yield a("models", "copy", "y", "y", "Copy", "Copy the chosen model's name, as requests give it.")
    yield a("chat", "back", "escape", "Esc", "Back", "Stop the answer, else leave the prompt.", palette=False)
    yield a("chat", "stop", "s", "s", "Stop", "Stop the answer that is being written.")
    yield a("chat", "pick_model", "m,f4", "m, F4", "Model", "Choose the model that answers.")
    yield a("chat", "thinking", "t", "t", "Thinking", "Show or hide the last answer's reasoning.")
    yield a("chat", "copy", "y", "y", "Copy", "Copy the last answer.")
    yield a("chat", "clear", "c", "c", "Clear", "Clear the conversation; asks first.")
    yield a("log", "follow", "f", "f", "Follow", "Go to the newest line and stay there.")
    yield a("log", "copy", "y", "y", "Copy", "Copy the chosen line.")
    yield a("log", "copy_all", "Y", "Shift+Y", "Copy all", "Copy the whole log.")
    yield a("mesh", "details", "enter", "Enter", "More", "Show all that is known of the chosen member.")
    yield a("mesh", "revoke", "x", "x", "Revoke", "Revoke the chosen member; lists who goes, and asks first.")
    yield a("mesh", "forget", "d,delete", "d, Del", "Forget", "Stop listing the chosen member that is gone.")
    yield a("mesh", "public", "P", "P", "Public", "List the mesh publicly, or take it back; asks first.")
    yield a("mesh", "leave_mesh", "L", "L", "Leave mesh", "Leave the mesh; asks first.", footer=False)
    yield a("mesh", "copy", "y", "y", "Copy", "Copy the chosen member's id.", footer=False)


ACTIONS: tuple[Action, ...] = tuple(_table())

EXTRA_HELP: tuple[tuple[Place, str, str], ...] = (
    ("anywhere", "Ctrl+P", "Find any action by its name."),
    ("anywhere", "Ctrl+C", "Copy the selected text. It never quits."),
    ("anywhere", "Esc", "One step back: stop an answer, close a dialog."),
    ("models", "↑ ↓ j k", "Choose a row; Home, End, Page Up and Page Down too."),
    ("log", "↑ ↓ j k", "Choose a line; Home, End, Page Up and Page Down too."),
    ("mesh", "↑ ↓ j k", "Choose a member; Home, End, Page Up and Page Down too."),
    ("chat", "Enter", "In the prompt: send. Shift+Enter or Ctrl+J starts a new line."),
    ("chat", "Page Up, Page Down", "Scroll the conversation, from the prompt too."),
)
"""Keys that come with the widgets: told in the help, not in the table above."""


def actions_of(*places: Place) -> Iterator[Action]:
    """The actions of some places, in the table's order."""
    return (action for action in ACTIONS if action.place in places)


def help_rows() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """For each place its title and its keys with what they do."""
    for place, title in PLACES.items():
        rows = [(action.shown, action.help) for action in actions_of(place) if action.shown]
        rows += [(keys, text) for where, keys, text in EXTRA_HELP if where == place]
        yield title, rows
