"""Where a person writes: Enter sends, Shift+Enter or Ctrl+J starts a new line."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from meshllm_tui.conversation import PROMPT_LIMIT


class Prompt(TextArea):
    """A text area of one to six lines that sends on Enter. A paste beyond its limit is cut, and said so."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", priority=True, key_display="Enter", tooltip="Send the message."),
        Binding("shift+enter,ctrl+j,alt+enter", "new_line", "New line", show=False),
        Binding("up", "earlier", "Edit", show=False),
        Binding("pageup", "scroll_reply(-1)", "Scroll up", show=False),
        Binding("pagedown", "scroll_reply(1)", "Scroll down", show=False),
    ]

    class Sent(Message):
        """A message is ready to be sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EarlierWanted(Message):
        """Up was pressed in an empty prompt: the last question is wanted back."""

    class Scrolled(Message):
        """The conversation should scroll by pages."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(
        self,
        id: str = "prompt",
        *,
        text: str = "",
        words: str = "Write a message, Enter sends",
        limit: int = PROMPT_LIMIT,
        sends_nothing: bool = False,
    ) -> None:
        super().__init__(text, id=id, compact=True, soft_wrap=True, show_line_numbers=False)
        self.add_class("prompt")
        self.cursor_blink = False
        self.highlight_cursor_line = False
        self.placeholder = words
        self._limit = limit
        self._sends_nothing = sends_nothing

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """F6 and F7 are the page's: a text area would select with them."""
        return action not in ("select_line", "select_all")

    def action_send(self) -> None:
        """Send what is written, if anything."""
        text = self.text.strip()
        if text or self._sends_nothing:
            self.post_message(self.Sent(text))

    def action_earlier(self) -> None:
        """In an empty prompt ask for the last question; else move up."""
        if self.text:
            self.action_cursor_up()
        else:
            self.post_message(self.EarlierWanted())

    def action_new_line(self) -> None:
        """Start a new line."""
        self.insert("\n")

    def action_scroll_reply(self, pages: int) -> None:
        """Scroll the conversation without leaving the prompt."""
        self.post_message(self.Scrolled(pages))

    async def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the text area's own handler after this one, which inserts what is left.
        room = self._limit - len(self.text)
        if len(event.text) > room:
            self.notify(
                f"The paste was cut: there is room for {self._limit:,} characters.",
                severity="warning",
                markup=False,
            )
            event.text = event.text[: max(room, 0)]
