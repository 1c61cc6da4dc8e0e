"""What can be done on the page of settings."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("settings", "Settings", "settings"),)

ACTIONS = (
    Action("settings", "search", "slash", "/", "Search", "Search the settings by name, help or source."),
    Action("settings", "edit", "enter", "Enter", "Change", "Change the chosen setting.", footer=False),
    Action("settings", "reset", "d,delete", "d, Del", "Default", "Take the key out of config.toml again."),
    Action("settings", "copy", "y", "y", "Copy", "Copy the chosen setting as a line of config.toml."),
    Action("settings", "ask", "r", "r", "Ask again", "Read the settings again.", footer=False),
)

EXTRA_HELP = (
    ("settings", "Esc", "While a value is written: leave it as it was."),
    ("settings", "↑ ↓ j k", "Choose a setting, or a value."),
)
