"""What can be done on the page of certificates."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("certify", "Certify", "certify"),)

ACTIONS = (
    Action("certify", "search", "slash", "/", "Search", "Search the records by model, family or verdict."),
    Action("certify", "measure", "m", "m", "Measure", "Measure the codecs of a model on this machine."),
    Action("certify", "cancel", "x", "x", "Cancel", "Cancel the measurement that runs; asks first."),
    Action("certify", "opposites", "o", "o", "Opposites", "List only look-alikes with opposite verdicts."),
    Action("certify", "copy", "y", "y", "Copy", "Copy the chosen record with its evidence."),
    Action("certify", "ask", "r", "r", "Ask again", "Read the records again.", footer=False),
)

EXTRA_HELP = (
    ("certify", "Enter", "On a record: its evidence. In the search: on to what was found."),
    ("certify", "Esc", "In the search: take it back."),
    ("certify", "↑ ↓ j k", "Choose a record, or scroll the evidence."),
)
