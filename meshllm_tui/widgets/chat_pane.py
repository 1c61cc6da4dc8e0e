"""The chat: a conversation with one of the node's models."""

import time
from functools import partial
from typing import TYPE_CHECKING

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError
from meshllm_core.ids import ModelId
from meshllm_tui.bridge import Throttle
from meshllm_tui.chat_models import ChatModel, chat_models
from meshllm_tui.cleaning import one_line
from meshllm_tui.conversation import TURNS_KEPT, Conversation, Turn, stream_answer
from meshllm_tui.keys import bindings_of
from meshllm_tui.messages import ActionFailed, TokensArrived
from meshllm_tui.present import Line, NodeView, chat_note
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.choose import ChooseScreen
from meshllm_tui.session import Session
from meshllm_tui.widgets.prompt import Prompt
from meshllm_tui.widgets.reply import Reply
from meshllm_tui.widgets.styled import content

if TYPE_CHECKING:
    from textual.widgets import Markdown


class ChatPane(Vertical):
    """The conversation above, the prompt below."""

    BINDINGS = bindings_of("chat")

    def __init__(self, session: Session) -> None:
        super().__init__(id="chat", classes="pane")
        self.border_title = Content("Chat")
        self._session = session
        self._view = NodeView()
        self.ready_models: tuple[ChatModel, ...] = ()
        """Models that can chat now, here or on another member."""
        self._conversation = Conversation()
        self._chosen: ModelId | None = None
        self._worker: Worker[None] | None = None
        self._shown: tuple[str, tuple[Line, ...]] = ("", ())
        self._throttle = Throttle(self._tokens_arrived)

    def compose(self) -> ComposeResult:
        """A note while nothing was said, the turns, the prompt."""
        with VerticalScroll(id="turns"):
            yield Static(id="chat-note", markup=False)
        yield Prompt()

    def on_unmount(self) -> None:
        """Nothing is left to be drawn."""
        self._throttle.stop()

    @property
    def _turns(self) -> VerticalScroll:
        return self.query_one("#turns", VerticalScroll)

    @property
    def prompt(self) -> Prompt:
        """Where a person writes."""
        return self.query_one(Prompt)

    @property
    def answering(self) -> bool:
        """Whether an answer is being written."""
        return self._worker is not None and self._worker.is_running

    @property
    def model(self) -> ChatModel | None:
        """The model that answers: the chosen one while it is ready, else the first that is."""
        ready = self.ready_models
        return next((model for model in ready if model.id == self._chosen), ready[0] if ready else None)

    def show(self, view: NodeView) -> None:
        """Take note of the models; the turns do not depend on the node."""
        if self._view.snapshot is not view.snapshot:
            self.ready_models = chat_models(view.snapshot)
        self._view = view
        model = self.model
        others = f"  m: {len(self.ready_models)} models" if len(self.ready_models) > 1 else ""
        subtitle = one_line(model.words, 60) + others if model else "no model"
        lines = chat_note(view, model.id if model else None, bool(self._conversation.turns))
        if (subtitle, lines) != self._shown:
            self._shown = (subtitle, lines)
            self.border_subtitle = Content(subtitle)
            note = self.query_one("#chat-note", Static)
            note.display = bool(lines)
            note.update(content(lines))

    def focus_main(self) -> None:
        """Give the keyboard to the prompt."""
        self.prompt.focus()

    def use(self, model: ModelId) -> None:
        """Let `model` answer from now on."""
        self._chosen = model
        self.show(self._view)

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Ask the model; what was written stays in the prompt when that cannot be."""
        event.stop()
        model = self.model
        if self.answering:
            self.notify("An answer is being written. Esc stops it.", severity="warning", markup=False)
        elif model is None:
            text = "No model is ready to chat. F2 loads one."
            self.notify(text, severity="warning", markup=False)
        else:
            self.prompt.clear()
            self._ask(event.text, model.id)

    def _ask(self, question: str, model: ModelId) -> None:
        messages, turn = self._conversation.ask(question, model, time.monotonic())
        self.show(self._view)
        replies = list(self.query(Reply))
        for old in replies[: max(len(replies) + 1 - TURNS_KEPT, 0)]:
            old.remove()
        self._turns.mount(Reply(turn))
        self._turns.anchor(False)
        self.call_after_refresh(self._keep_end)
        self._worker = self.run_worker(
            partial(self._answer, messages, turn), group="chat", exclusive=True, exit_on_error=False
        )
        self.refresh_bindings()

    async def _answer(self, messages: list[dict[str, str]], turn: Turn) -> None:
        try:
            client = self._session.client
        except MeshError as error:
            turn.answer.fail(error.message, error.hint)
            self._throttle.poke()
            return
        await stream_answer(client, messages, turn.answer, self._throttle.poke)

    def _tokens_arrived(self) -> None:
        self.post_message(TokensArrived())

    async def on_tokens_arrived(self, event: TokensArrived) -> None:
        """Draw what has come."""
        event.stop()
        for reply in self.query(Reply).results(Reply):
            if not reply.complete:
                await reply.refresh_answer()
        self.call_after_refresh(self._keep_end)

    def _keep_end(self) -> None:
        """Stay at the newest text until a person scrolls up.

        The anchor is set only when there is more than fits: it would push a short conversation down.
        """
        turns = self._turns
        if turns.max_scroll_y > 0 and not turns.is_anchored:
            turns.anchor()
        elif turns.max_scroll_y == 0 and turns.is_anchored:
            turns.anchor(False)
            turns.scroll_home(animate=False)

    def on_resize(self) -> None:
        """In another size the conversation may fit, or no longer."""
        self.call_after_refresh(self._keep_end)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """The end of an answer, however it came."""
        event.stop()
        if event.state not in (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED):
            return
        answer = self._conversation.turns[-1].answer if self._conversation.turns else None
        if event.state is WorkerState.ERROR and answer is not None:
            answer.fail(f"the dashboard failed: {event.worker.error!r}", "Please report it with the log.")
        if answer is not None and answer.state == "failed":
            self.post_message(ActionFailed("the answer", MeshError(answer.error, hint=answer.hint)))
            if not answer.text and not self.prompt.text:
                self.prompt.text = self._conversation.turns[-1].question
        self.post_message(TokensArrived())
        self.refresh_bindings()

    def on_markdown_link_clicked(self, event: "Markdown.LinkClicked") -> None:
        """A link in an answer is copied, never opened: a model wrote it."""
        event.stop()
        self.app.copy_to_clipboard(one_line(event.href, 2000))
        self.notify(f"Copied the link: {one_line(event.href, 80)}", markup=False)

    def on_prompt_scrolled(self, event: Prompt.Scrolled) -> None:
        """Page through the conversation from the prompt."""
        event.stop()
        if not self._turns.allow_vertical_scroll:
            return
        if event.pages < 0:
            self._turns.action_page_up()
        else:
            self._turns.action_page_down()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what makes sense now is offered."""
        turns = self._conversation.turns
        if action == "stop":
            return self.answering
        if action == "pick_model":
            return len(self.ready_models) > 1
        if action == "thinking":
            return bool(turns and turns[-1].answer.reasoning)
        return bool(turns) if action in ("copy", "clear") else True

    def action_stop(self) -> None:
        """Stop the answer; what has come stays."""
        if self._worker is not None:
            self._worker.cancel()

    def action_back(self) -> None:
        """One step back: stop the answer, else leave the prompt."""
        if self.answering:
            self.action_stop()
        elif self.prompt.has_focus:
            self._turns.focus()
        else:
            raise SkipAction

    def action_pick_model(self) -> None:
        """Choose the model that answers."""
        choices = [(str(model.id), model.words) for model in self.ready_models]
        self.app.push_screen(ChooseScreen("Which model answers?", choices), self._picked)

    def _picked(self, chosen: str | None) -> None:
        if chosen is not None:
            self.use(ModelId(chosen))

    def action_thinking(self) -> None:
        """Show or hide the last answer's reasoning."""
        replies = self.query(Reply)
        if not replies or not replies.last(Reply).toggle_thinking():
            self.notify("The last answer has no reasoning apart.", markup=False)

    def action_copy(self) -> None:
        """Copy the last answer's text."""
        if self._conversation.turns:
            self.app.copy_to_clipboard(self._conversation.turns[-1].answer.text)
            self.notify("Copied the answer.", markup=False)

    def action_clear(self) -> None:
        """Clear the conversation, after asking."""
        question = AskScreen(
            "Clear the conversation?",
            "Its text is kept nowhere else.",
            (("cancel", "Keep it"), ("clear", "Clear")),
        )
        self.app.push_screen(question, self._clear)

    def _clear(self, answer: str | None) -> None:
        if answer != "clear":
            return
        self.action_stop()
        self._conversation = Conversation()
        self.query(Reply).remove()
        self._turns.anchor(False)
        self.show(self._view)
        self.refresh_bindings()
