"""The pages of the dashboard: names, numbers, and which class draws each. No Textual here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PageSpec:
    """One page. Its class is imported when the page is first opened."""

    name: str
    title: str
    short: str
    """For the bar of a narrow terminal; at most six characters."""
    key: str
    """The digit that opens it."""
    made_by: str
    """module:class below meshllm_tui.pages."""


PAGES: tuple[PageSpec, ...] = (
    PageSpec("mesh", "Mesh", "Mesh", "1", "mesh:MeshPage"),
    PageSpec("models", "Models", "Models", "2", "models:ModelsPage"),
    PageSpec("split", "Split", "Split", "3", "split:SplitPage"),
    PageSpec("plan", "Planner", "Plan", "4", "plan:PlanPage"),
    PageSpec("certify", "Certify", "Certs", "5", "certify:CertifyPage"),
    PageSpec("invite", "Invite", "Invite", "6", "invite:InvitePage"),
    PageSpec("chat", "Chat", "Chat", "7", "chat:ChatPage"),
    PageSpec("requests", "Requests", "Reqs", "8", "requests:RequestsPage"),
    PageSpec("activity", "Activity", "Events", "9", "activity:ActivityPage"),
    PageSpec("settings", "Settings", "Setup", "0", "settings:SettingsPage"),
)
"""In the order of the bar."""
