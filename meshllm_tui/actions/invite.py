"""What can be done on the page of invites."""

from meshllm_tui.actions.action import Action, Place

PLACES = (
    Place("invite", "Invite a machine", "invite"),
    Place("invites", "Invites", "invite"),
    Place("join", "Join", "invite"),
)

ACTIONS = (
    Action("invite", "make", "m", "m", "Make", "Make an invite as the form says."),
    Action("invite", "full", "f", "f", "Full screen", "Show the invite's code over the whole screen."),
    Action("invite", "copy", "y", "y", "Copy token", "Copy the invite's token."),
    Action("invite", "save", "s", "s", "Save picture", "Save the code as a PNG in your home directory."),
    Action("invites", "code", "enter,f", "Enter, f", "Code", "Show the chosen invite's code again."),
    Action("invites", "revoke", "x,delete", "x, Del", "Revoke", "Take the chosen invite back; asks first."),
    Action("invites", "copy", "y", "y", "Copy", "Copy the chosen invite's token, or its id."),
    Action("join", "go_on", "enter", "Enter", "Go on", "Write an invite; after joining: show the mesh."),
    Action("join", "picture", "o,f4", "o, F4", "Picture", "Open a picture of an invite's code."),
    Action("join", "camera", "c,f5", "c, F5", "Camera", "Hold an invite's code before the camera."),
    Action("join", "again", "r", "r", "Try again", "Try the same invite again after it failed."),
    Action("join", "another", "n", "n", "Another", "Take another invite.", footer=False),
    Action("join", "copy", "y", "y", "Copy", "Copy the checklist.", footer=False),
)

EXTRA_HELP = (
    ("invite", "↑ ↓ ← →", "Choose a line of the form, and change it."),
    ("invites", "↑ ↓ j k", "Choose an invite."),
    ("join", "Esc", "Leave the box, or stop the camera."),
)
