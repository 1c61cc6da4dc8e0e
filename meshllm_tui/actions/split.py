"""What can be done on the page of splits."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("split", "Split", "split"), Place("splits", "Splits", "split"))

ACTIONS = (
    Action("splits", "details", "enter", "Enter", "Stages", "Go to the stages of the chosen split."),
    Action("split", "chat", "c", "c", "Chat", "Chat with the chosen split model."),
    Action("split", "plan", "w", "w", "Other ways", "See what other ways there are to run the chosen model."),
    Action("split", "unload", "u,delete", "u, Del", "Unload", "Unload the chosen split model; asks first."),
    Action("split", "retry", "r", "r", "Retry", "Load the chosen split model again after it failed."),
    Action("split", "copy", "y", "y", "Copy", "Copy all that is said of the chosen split."),
)

EXTRA_HELP = (
    ("splits", "↑ ↓ j k", "Choose a split, or a stage for another machine."),
    ("split", "↑ ↓ j k", "In the stages: scroll; Page Up and Page Down too."),
)
