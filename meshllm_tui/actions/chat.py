"""What can be done in the chat."""

from meshllm_tui.actions.action import Action, Place

PLACES = (Place("chat", "Chat", "chat"), Place("chats", "Conversations", "chat"))

ACTIONS = (
    Action("chat", "back", "escape", "Esc", "Back", "Stop the answer, else leave the prompt.", palette=False),
    Action("chat", "stop", "s", "s", "Stop", "Stop the answer that is being written.", footer=False),
    Action("chat", "retry", "r,f7", "r, F7", "Retry", "Ask the last question again; replaces its answer."),
    Action(
        "chat", "edit", "E,f8", "E, F8", "Edit", "Change the last question and ask it anew.", footer=False
    ),
    Action("chat", "pick_model", "m,f4", "m, F4", "Model", "Choose the model that answers."),
    Action(
        "chat", "system", "S,f9", "S, F9", "System", "Write the conversation's system prompt.", footer=False
    ),
    Action("chat", "new", "n", "n", "New", "Begin another conversation; this one is kept.", footer=False),
    Action("chat", "list", "o,f5", "o, F5", "Chats", "Go to the list of conversations."),
    Action("chat", "copy", "y", "y", "Copy", "Copy the last answer."),
    Action("chat", "copy_code", "b", "b", "Code", "Copy a code block of the last answer.", footer=False),
    Action(
        "chat", "thinking", "t", "t", "Thinking", "Show or hide the last answer's reasoning.", footer=False
    ),
    Action(
        "chat",
        "copy_all",
        "Y",
        "Shift+Y",
        "Copy all",
        "Copy the whole conversation as Markdown.",
        footer=False,
    ),
    Action(
        "chat", "export", "w", "w", "Export", "Write the conversation into a Markdown file.", footer=False
    ),
    Action("chats", "open", "enter", "Enter", "Open", "Open the chosen conversation."),
    Action("chats", "new", "n", "n", "New", "Begin another conversation.", palette=False),
    Action("chats", "rename", "R", "R", "Rename", "Call the chosen conversation something else."),
    Action("chats", "delete", "d,delete", "d, Del", "Delete", "Delete the chosen conversation; asks first."),
    Action("chats", "search", "slash", "/", "Search", "Find conversations by a word in them."),
    Action(
        "chats",
        "back",
        "escape",
        "Esc",
        "Back",
        "End the search, else go to the chat.",
        footer=False,
        palette=False,
    ),
)

EXTRA_HELP = (
    ("chat", "Enter", "In the prompt: send. Shift+Enter or Ctrl+J starts a new line."),
    ("chat", "↑", "In the empty prompt: change the last question."),
    ("chat", "Page Up, Page Down", "Scroll the conversation, from the prompt too."),
    ("chats", "↑ ↓ j k", "Choose a conversation; Home, End, Page Up and Page Down too."),
)
