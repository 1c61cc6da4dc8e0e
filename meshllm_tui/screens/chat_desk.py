"""What is done with a conversation besides talking: copying, exporting, naming, its system prompt."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from meshllm_core.errors import StorageError
from meshllm_tui.chat_models import ChatModel, model_choices
from meshllm_tui.chat_words import as_markdown, code_blocks, file_name
from meshllm_tui.chats.file import ChatRow
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.conversation import SYSTEM_LIMIT, TITLE_LIMIT, Conversation
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.screens.write import WriteScreen
from meshllm_tui.screenshots import export_folder
from meshllm_tui.units import count

if TYPE_CHECKING:
    from textual.app import App

PATH_LIMIT = 1000


class ChatDesk:
    """Asks with dialogs and tells what was done."""

    def __init__(self, app: "App[int]") -> None:
        self._app = app

    def _copied(self, text: str, words: str) -> None:
        self._app.copy_to_clipboard(text)
        self._app.notify(words, markup=False)

    def copy_answer(self, conversation: Conversation) -> None:
        """The last answer, as it was written."""
        if conversation.last is not None:
            self._copied(conversation.last.answer.text, "Copied the answer.")

    def copy_all(self, conversation: Conversation) -> None:
        """The conversation as Markdown."""
        self._copied(as_markdown(conversation), "Copied the conversation.")

    def copy_code(self, conversation: Conversation) -> None:
        """The last answer's code; asks which block where there are several."""
        blocks = code_blocks(conversation.last.answer.text) if conversation.last else []
        if not blocks:
            self._app.notify("The last answer has no code block.", markup=False)
        elif len(blocks) == 1:
            self._copied(blocks[0], "Copied the code.")
        else:
            choices = [(str(place), _code_words(code)) for place, code in enumerate(blocks)]

            def chosen(place: str | None) -> None:
                if place is not None:
                    self._copied(blocks[int(place)], "Copied the code.")

            self._app.push_screen(ChooseScreen("Which code?", choices), chosen)

    def export(self, conversation: Conversation) -> None:
        """Write the conversation into a file that does not exist yet."""
        text = as_markdown(conversation)

        async def write(where: str) -> None:
            written = await asyncio.to_thread(_write_new, where, text)
            self._app.notify(f"Wrote {one_line(str(written), 200)}", markup=False)

        path = str(export_folder() / file_name(conversation.title))
        hint = "A Markdown file with all questions and answers."
        self._app.push_screen(WriteScreen("Export to which file?", path, hint, PATH_LIMIT, write))

    def pick_model(self, models: tuple[ChatModel, ...], picked: Callable[[str], None]) -> None:
        """Which of the models answers."""

        def chosen(model: str | None) -> None:
            if model is not None:
                picked(model)

        self._app.push_screen(ChooseScreen("Which model answers?", model_choices(models)), chosen)

    def write_system(self, conversation: Conversation, written: Callable[[str], None]) -> None:
        """The system prompt; an empty one is none."""

        def done(text: str | None) -> None:
            if text is not None:
                written(text)

        hint = "Sent before every question of this conversation. Empty: none."
        self._app.push_screen(WriteScreen("System prompt", conversation.system, hint, SYSTEM_LIMIT), done)

    def rename(self, row: ChatRow, renamed: Callable[[str], None]) -> None:
        """What a conversation is called."""

        def done(text: str | None) -> None:
            title = one_line(text or "", TITLE_LIMIT)
            if title:
                renamed(title)

        self._app.push_screen(WriteScreen("Rename", row.title, "How the list calls it.", TITLE_LIMIT), done)

    def delete(self, row: ChatRow, deleted: Callable[[], None]) -> None:
        """Delete a conversation, after asking."""

        def answered(answer: str | None) -> None:
            if answer == "delete":
                deleted()

        text = f"Its {count(row.turns, 'question')} and the answers are kept nowhere else."
        answers = (("cancel", "Keep it"), ("delete", "Delete"))
        self._app.push_screen(AskScreen(f"Delete “{fit(row.title, 40)}”?", text, answers), answered)


def _code_words(code: str) -> str:
    first = next((each for each in code.split("\n") if each.strip()), "")
    return f"{fit(first, 40)}  {count(code.count(chr(10)) + 1, 'line')}"


def _write_new(where: str, text: str) -> Path:
    path = Path(where)
    try:
        path = path.expanduser()
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        return path
    except FileExistsError:
        raise StorageError(f"{path} exists already.", hint="Choose another name.") from None
    except (OSError, RuntimeError, ValueError) as error:
        # RuntimeError: `~` of a user that there is not. ValueError: a path that cannot be.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(f"Could not write {path}: {reason}.", hint="Choose another place.") from None
