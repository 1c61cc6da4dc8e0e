"""What can be done on the page of requests."""

from meshllm_tui.actions.action import Action, Place

PLACES = (
    Place("requests", "Requests", "requests"),
    Place("request", "Request", "requests"),
    Place("connect", "Connect", "requests"),
)

ACTIONS = (
    Action("requests", "details", "enter", "Enter", "Phases", "Show where the chosen request's time went."),
    Action("requests", "cancel", "x", "x", "Cancel", "Cancel the chosen request while it runs; asks first."),
    Action(
        "requests", "turn", "f", "f", "Filter", "List all requests, those that run, or those that failed."
    ),
    Action("requests", "copy", "y", "y", "Copy", "Copy the chosen request as a line of JSON."),
    Action("requests", "copy_id", "c", "c", "Copy id", "Copy the chosen request's id.", footer=False),
    Action("request", "copy", "y", "y", "Copy", "Copy what is told of the request."),
    Action("connect", "copy", "y,enter", "y, Enter", "Copy", "Copy what connects the chosen app."),
)

EXTRA_HELP = (
    ("requests", "↑ ↓ j k", "Choose a request; Home, End, Page Up and Page Down too."),
    ("connect", "↑ ↓ j k", "Choose an app."),
)
