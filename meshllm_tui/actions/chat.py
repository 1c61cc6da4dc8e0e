"""What can be done in the chat."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("chat", "Chat", "chat"),)

ACTIONS = (
    Action("chat", "back", "escape", "Esc", "Back", "Stop the answer, else leave the prompt.", palette=False),
    Action("chat", "stop", "s", "s", "Stop", "Stop the answer that is being written."),
    Action("chat", "pick_model", "m,f4", "m, F4", "Model", "Choose the model that answers."),
    Action("chat", "thinking", "t", "t", "Thinking", "Show or hide the last answer's reasoning."),
    Action("chat", "copy", "y", "y", "Copy", "Copy the last answer."),
    Action("chat", "clear", "c", "c", "Clear", "Clear the conversation; asks first."),
)

EXTRA_HELP = (
    ("chat", "Enter", "In the prompt: send. Shift+Enter or Ctrl+J starts a new line."),
    ("chat", "Page Up, Page Down", "Scroll the conversation, from the prompt too."),
)
