"""What can be done on the mesh's page."""

from meshllm_tui.actions.action import Action, Place

PLACES = (
    Place("mesh", "Mesh", "mesh"),
    Place("node", "Node", "mesh"),
    Place("models", "Models", "mesh"),
    Place("log", "Log", "mesh"),
)

ACTIONS = (
    Action("mesh", "details", "enter", "Enter", "More", "Show all that is known of the chosen member."),
    Action("mesh", "table", "t", "t", "Table", "Show the members as a table, or as a drawing.", footer=False),
    Action("mesh", "admit", "a", "a", "Let in", "Let a machine in that waits for it, or do not."),
    Action(
        "mesh",
        "revoke",
        "x",
        "x",
        "Revoke",
        "Remove the chosen member from the mesh; lists who goes with it, and asks first.",
    ),
    Action("mesh", "block", "b", "b", "Block", "Do not talk to the chosen member, or talk to it again."),
    Action(
        "mesh",
        "forget",
        "d,delete",
        "d, Del",
        "Forget",
        "Stop listing the chosen member that is gone.",
        footer=False,
    ),
    Action("mesh", "leave_mesh", "L", "L", "Leave mesh", "Leave the mesh; asks first.", footer=False),
    Action("mesh", "copy", "y", "y", "Copy", "Copy the chosen member's id.", footer=False),
    Action("node", "copy", "y", "y", "Copy", "Copy what the node pane says."),
    Action("node", "copy_id", "c", "c", "Copy id", "Copy this node's id."),
    Action("models", "use", "enter", "Enter", "Chat", "Chat with the chosen model."),
    Action("models", "unload", "u,delete", "u, Del", "Unload", "Unload the chosen model; asks first."),
    Action("models", "retry", "r", "r", "Retry", "Load the chosen model again after it failed."),
    Action("models", "stages", "s", "s", "Stages", "Show how the chosen split model is spread, and why."),
    Action("models", "copy", "y", "y", "Copy", "Copy the chosen model's name, as requests give it."),
    Action("log", "follow", "f", "f", "Follow", "Go to the newest line and stay there."),
    Action("log", "copy", "y", "y", "Copy", "Copy the chosen line."),
    Action("log", "copy_all", "Y", "Shift+Y", "Copy all", "Copy the whole log."),
)

EXTRA_HELP = (
    ("mesh", "↑ ↓ j k", "Choose a member; Home, End, Page Up and Page Down too."),
    ("mesh", "← →", "In the drawing: go to this node, or to the other side."),
    ("models", "↑ ↓ j k", "Choose a row; Home, End, Page Up and Page Down too."),
    ("log", "↑ ↓ j k", "Choose a line; Home, End, Page Up and Page Down too."),
)
"""Keys that come with the widgets: told in the help, not in the table above."""
