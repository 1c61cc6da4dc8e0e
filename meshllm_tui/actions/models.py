"""What can be done on the page of models."""

from meshllm_tui.actions.action import Action, Place

PLACES = (
    Place("running", "Running models", "models"),
    Place("library", "Models on the disk", "models"),
    Place("catalog", "Catalogue", "models"),
    Place("downloads", "Downloads", "models"),
)

ACTIONS = (
    Action("running", "use", "enter", "Enter", "Chat", "Chat with the chosen model."),
    Action("running", "unload", "u", "u", "Unload", "Unload the chosen model of this node; asks first."),
    Action("running", "retry", "r", "r", "Retry", "Load the chosen model again after it failed."),
    Action("running", "stages", "s", "s", "Stages", "Show how the chosen split model is spread."),
    Action("running", "copy", "y", "y", "Copy", "Copy the chosen model's name, as requests give it."),
    Action("library", "load", "enter", "Enter", "Load", "Load the chosen model from the disk."),
    Action("library", "remove", "x,delete", "x, Del", "Delete", "Delete the chosen model; asks first."),
    Action("library", "go_on", "r", "r", "Go on", "Go on with the chosen model's download."),
    Action("library", "copy", "y", "y", "Copy", "Copy what loads the chosen model."),
    Action("library", "again", "R", "Shift+R", "Look again", "Read the disk again.", footer=False),
    Action("catalog", "get", "enter", "Enter", "Get", "Fetch, load or split the chosen model; asks first."),
    Action("catalog", "download", "d", "d", "Download", "Download the chosen model without loading it."),
    Action("catalog", "search", "slash", "/", "Search", "Search the catalogue, and with Enter the hub."),
    Action("catalog", "back", "escape", "Esc", "Back", "Back to the whole catalogue.", palette=False),
    Action("catalog", "copy", "y", "y", "Copy", "Copy what loads the chosen model."),
    Action("catalog", "again", "R", "Shift+R", "Ask again", "Ask for the marks again.", footer=False),
    Action(
        "downloads",
        "pause",
        "enter,w",
        "Enter, w",
        "Pause/resume",
        "Pause the chosen download, or let it go on.",
    ),
    Action("downloads", "remove", "x,delete", "x, Del", "Cancel", "End the chosen download; asks first."),
    Action("downloads", "copy", "y", "y", "Copy", "Copy what loads the chosen model."),
)

EXTRA_HELP = (
    ("running", "↑ ↓ j k", "Choose a model; Home, End, Page Up and Page Down too."),
    ("library", "↑ ↓ j k", "Choose a model; a click on the chosen one loads it."),
    ("catalog", "↑ ↓ j k", "Choose a model; a click on the chosen one is Enter."),
    ("catalog", "Enter", "In the search: ask the hub. ↓ goes to what was found."),
    ("downloads", "↑ ↓ j k", "Choose a download."),
)
