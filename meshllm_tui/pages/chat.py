"""The chat's page."""

from textual.app import ComposeResult

from meshllm_tui.pages.page import Page
from meshllm_tui.widgets.chat_pane import ChatPane


class ChatPage(Page):
    """A conversation with one of the mesh's models."""

    NAME = "chat"
    PANES = ("chat",)
    FIRST = "chat"

    def body(self) -> ComposeResult:
        """The conversation."""
        yield ChatPane(self.session)

    @property
    def chat(self) -> ChatPane:
        """The conversation's pane."""
        return self.query_one(ChatPane)
