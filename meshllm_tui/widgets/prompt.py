"""Where a person writes: Enter sends, Shift+Enter or Ctrl+J starts a new line."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

PROMPT_LIMIT = 200_000
"""Characters; a longer paste is cut and said so."""


class Prompt(TextArea):
    """A text area of one to six lines that sends on Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", priority=True, key_display="Enter", tooltip="Send the message."),
        Binding("shift+enter,ctrl+j,alt+enter", "new_line", "New line", show=False),
        Binding("pageup", "scroll_reply(-1)", "Scroll up", show=False),
        Binding("pagedown", "scroll_reply(1)", "Scroll down", show=False),
    ]

    class Sent(Message):
        """A message is ready to be sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Scrolled(Message):
        """The conversation should scroll by pages."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True, soft_wrap=True, show_line_numbers=False)
        self.cursor_blink = False
        self.highlight_cursor_line = False
        self.placeholder = "Write a message, Enter sends"

    def action_send(self) -> None:
        """Send what is written, if anything."""
        text = self.text.strip()
        if text:
            self.post_message(self.Sent(text))

    def action_new_line(self) -> None:
        """Start a new line."""
        self.insert("\n")

    def action_scroll_reply(self, pages: int) -> None:
        """Scroll the conversation without leaving the prompt."""
        self.post_message(self.Scrolled(pages))

    async def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the text area's own handler after this one, which inserts what is left.
        room = PROMPT_LIMIT - len(self.text)
        if len(event.text) > room:
            self.notify(
                f"The paste was cut: a message may have {PROMPT_LIMIT:,} characters.",
                severity="warning",
                markup=False,
            )
            event.text = event.text[: max(room, 0)]
