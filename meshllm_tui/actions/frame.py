"""What can be done on every page."""

from meshllm_tui.actions.action import ANYWHERE, PAGE, Action, Place
from meshllm_tui.actions.pages import PAGES

PLACES = (Place(ANYWHERE, "Anywhere"), Place(PAGE, "On a page"))

ACTIONS = (
    Action(ANYWHERE, "help", "question_mark,f1", "?, F1", "Help", "Show every key."),
    Action(
        ANYWHERE, "quit", "ctrl+q", "Ctrl+Q", "Quit", "Leave; asks whether the node stays.", priority=True
    ),
    Action(ANYWHERE, "leave", "q", "q", "Quit", "Leave, as Ctrl+Q does.", footer=False, palette=False),
    Action(ANYWHERE, "stop_node", "", "", "Stop", "Stop the node and leave; asks first.", footer=False),
    Action(ANYWHERE, "load", "l,f2", "l, F2", "Load", "Load a model: by name, file or repository."),
    Action(ANYWHERE, "write", "i,f3", "i, F3", "Write", "Go to the chat's prompt.", footer=False),
    Action(ANYWHERE, "invite", "v", "v", "Invite", "Invite a machine: token and QR code.", footer="mesh"),
    Action(ANYWHERE, "join", "J", "J", "Join", "Join a mesh with an invite.", footer=False),
    Action(
        ANYWHERE,
        "lending",
        "p",
        "p",
        "Lending",
        "Pause lending: nothing new is computed for others until it is pressed again.",
        footer="mesh",
    ),
    Action(
        ANYWHERE,
        "public",
        "P",
        "P",
        "Public",
        "List the mesh publicly, or take it back; says first what that shows.",
        footer=False,
    ),
    Action(
        ANYWHERE,
        "copy_endpoint",
        "e",
        "e",
        "Copy URL",
        "Copy the endpoint's URL for a chat app.",
        footer=False,
    ),
    *(
        Action(
            ANYWHERE,
            f"page('{page.name}')",
            page.key,
            page.key,
            page.title,
            f"Go to the page {page.title}.",
            footer=False,
        )
        for page in PAGES
    ),
    Action(PAGE, "next_pane", "tab", "Tab", "Next", "Go to the next pane.", footer=False, palette=False),
    Action(
        PAGE,
        "last_pane",
        "shift+tab",
        "Shift+Tab",
        "Back",
        "Go to the pane before.",
        footer=False,
        palette=False,
    ),
    Action(
        PAGE,
        "jump",
        "g,f6",
        "g, F6",
        "Jump",
        "Show a letter on each pane; press it to go there.",
        footer=False,
    ),
)

EXTRA_HELP = (
    (ANYWHERE, "Ctrl+P", "Find any action by its name."),
    (ANYWHERE, "Ctrl+C", "Copy the selected text. It never quits."),
    (ANYWHERE, "Esc", "One step back: stop an answer, close a dialog."),
)
