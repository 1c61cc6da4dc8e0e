"""What can be done on the page of activity."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("activity", "Activity", "activity"), Place("logs", "Logs", "activity"))

ACTIONS = (
    Action("activity", "filter", "slash", "/", "Filter", "Show only lines with some words."),
    Action("activity", "level", "w", "w", "Level", "Show all lines, warnings and errors, or errors only."),
    Action("activity", "follow", "f", "f", "Follow", "Go to the newest line and stay there."),
    Action("activity", "copy", "y,enter", "y, Enter", "Copy", "Copy the chosen line."),
    Action("activity", "copy_all", "Y", "Shift+Y", "Copy all", "Copy all lines shown.", footer=False),
    Action("logs", "choose", "o", "o", "Other log", "Choose which log is read: the node's or an engine's."),
    Action("logs", "filter", "slash", "/", "Filter", "Show only lines of the log with some words."),
    Action("logs", "follow", "f", "f", "Follow", "Go to the log's end and stay there."),
    Action("logs", "copy", "y", "y", "Copy", "Copy the lines of the log that are on the screen."),
    Action("logs", "copy_all", "Y", "Shift+Y", "Copy all", "Copy what is kept of the log.", footer=False),
)

EXTRA_HELP = (
    ("activity", "↑ ↓ j k", "Choose a line; Home, End, Page Up and Page Down too."),
    ("activity", "Enter, Esc", "In the filter: keep it and go back to the lines; take it away."),
    ("logs", "↑ ↓ ← → j k", "Move through the log; Home, End, Page Up and Page Down too."),
)
