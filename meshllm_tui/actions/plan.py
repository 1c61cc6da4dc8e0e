"""What can be done on the planner's page."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("plan", "Planner", "plan"), Place("candidates", "Candidates", "plan"))

ACTIONS = (
    Action(
        "candidates",
        "launch",
        "enter",
        "Enter",
        "Launch",
        "Launch the chosen candidate; shows its price, and asks first.",
        palette=False,
    ),
    Action("plan", "launch", "L", "L", "Launch", "Launch the chosen candidate; shows its price first."),
    Action("plan", "pick", "m", "m", "Model", "Pick the model to plan."),
    Action("plan", "ask", "r", "r", "Ask again", "Plan again, with what is measured now."),
    Action("plan", "reset", "z", "z", "Reset", "Take back all that was supposed."),
    Action("plan", "copy", "y", "y", "Copy", "Copy the chosen candidate with its reasons."),
)

EXTRA_HELP = (
    ("plan", "← → - +", "At a slider: another value. At the model: another model."),
    ("plan", "↑ ↓ j k", "Another slider, another candidate, or scroll."),
)
