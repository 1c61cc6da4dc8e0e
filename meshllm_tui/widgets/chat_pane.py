"""The chat: a conversation with one of the mesh's models."""

import time
from functools import partial

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError
from meshllm_core.ids import ModelId
from meshllm_tui.bridge import Throttle
from meshllm_tui.chat_models import ChatModel, chat_models
from meshllm_tui.chat_words import how_answered
from meshllm_tui.cleaning import fit, one_line
from meshllm_tui.conversation import TURNS_KEPT, Conversation, Turn, stream_answer
from meshllm_tui.keys import bindings_of
from meshllm_tui.messages import ActionFailed, TokensArrived
from meshllm_tui.present import Line, NodeView, chat_note
from meshllm_tui.session import Session
from meshllm_tui.widgets.chat_tools import ChatTools
from meshllm_tui.widgets.prompt import Prompt
from meshllm_tui.widgets.styled import content
from meshllm_tui.widgets.talk import Talk

SAVE_SECONDS = 3.0
"""An answer that is being written is kept that often."""
EDITING = "Editing the last question: Enter asks it anew, Esc keeps the old one"
BUSY = "An answer is being written. Esc stops it."
_ON_TURNS = ("copy", "copy_code", "copy_all", "export", "retry", "edit", "new")
_ON_IDLE = ("retry", "edit", "new")


class ChatPane(ChatTools):
    """The conversation above, the prompt below."""

    BINDINGS = bindings_of("chat")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.border_title = Content("Chat")
        self._session = session
        self._view = NodeView()
        self._chosen: ModelId | None = None
        self._editing = False
        self._worker: Worker[None] | None = None
        self._shown: tuple[str, str, tuple[Line, ...]] = ("", "", ())
        self._throttle = Throttle(self._tokens_arrived)
        self._kept_at = 0.0

    def compose(self) -> ComposeResult:
        """A note while nothing was said, the turns, the prompt."""
        yield Static(id="chat-note", markup=False)
        yield Talk()
        yield Prompt()

    def on_unmount(self) -> None:
        """Nothing is left to be drawn."""
        self._throttle.stop()

    @property
    def answering(self) -> bool:
        """Whether an answer is being written."""
        return self._worker is not None and not self._worker.is_finished

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
        title = fit(self.conversation.title, 60) or "Chat"
        lines = chat_note(view, model.id if model else None, bool(self.conversation.turns))
        if (title, subtitle, lines) != self._shown:
            self._shown = (title, subtitle, lines)
            self.border_title, self.border_subtitle = Content(title), Content(subtitle)
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

    def open(self, conversation: Conversation, *, keep_model: bool = False) -> None:
        """Show another conversation and go on with it; nothing must be being answered."""
        last = self.conversation.last
        if last is not None and self.prompt.text == last.question:
            # It came back as it was not answered, and belongs to the conversation that is left.
            self.prompt.clear()
        self.conversation = conversation
        self._end_editing()
        if conversation.model and not (keep_model and self._chosen):
            self._chosen = ModelId(conversation.model)
        self.talk.open(conversation.turns)
        self.show_system()
        self.show(self._view)
        self.refresh_bindings()

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Ask the model; what was written stays in the prompt when that cannot be."""
        event.stop()
        model = self._free_model()
        if model is None:
            return
        self.prompt.clear()
        last = self.conversation.last
        unanswered = last is not None and last.answer.state == "failed" and not last.answer.text
        if self._editing or unanswered:
            self.conversation.drop_last()
            self.talk.drop_last()
        self._end_editing()
        before = len(self.conversation.turns)
        messages, turn = self.conversation.ask(event.text, model, time.monotonic())
        if before == TURNS_KEPT:
            self.talk.drop_first(1)
        self.talk.add(turn)
        self._begin(messages, turn)

    def _free_model(self) -> ModelId | None:
        """The model that can be asked now; says why not."""
        if self.answering:
            self.notify(BUSY, severity="warning", markup=False)
            return None
        if self.model is None:
            self.notify("No model is ready to chat. F2 loads one.", severity="warning", markup=False)
            return None
        return self.model.id

    def _begin(self, messages: list[dict[str, str]], turn: Turn) -> None:
        self.show(self._view)
        self._kept_at = time.monotonic()
        self.post_message(self.Changed(self.conversation))
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

    def on_tokens_arrived(self, event: TokensArrived) -> None:
        """Draw what has come, and keep it now and then."""
        event.stop()
        last = self.conversation.last
        if last is None:
            return
        answer = last.answer
        if answer.first_at and (not answer.how or answer.state == "done") and not last.saved:
            how = how_answered(self._view.snapshot, answer.model, answer.served_by)
            answer.how = how or answer.how
        self.talk.draw_last()
        if self.answering and time.monotonic() - self._kept_at > SAVE_SECONDS:
            self._kept_at = time.monotonic()
            self.post_message(self.Changed(self.conversation, listed=False))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """The end of an answer, however it came."""
        event.stop()
        if event.state not in (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED):
            return
        last = self.conversation.last
        if event.worker is not self._worker or last is None:
            return
        answer = last.answer
        if event.state is WorkerState.ERROR:
            answer.fail(f"the dashboard failed: {event.worker.error!r}", "Please report it with the log.")
        if answer.state == "failed":
            self._tell_failure(MeshError(answer.error, hint=answer.hint))
            if not answer.text and not self.prompt.text:
                # All of it is chosen: whoever wants to ask something else just writes.
                self.prompt.text = last.question
                self.prompt.select_all()
        self.post_message(TokensArrived())
        self.post_message(self.Changed(self.conversation))
        self.refresh_bindings()

    def _tell_failure(self, error: MeshError) -> None:
        """Who sees the conversation reads it there; a notice would only cover the prompt."""
        if self.app.screen is self.screen:
            self._session.note("error", f"the answer failed: {error}")
        else:
            self.post_message(ActionFailed("the answer", error))

    def on_prompt_scrolled(self, event: Prompt.Scrolled) -> None:
        """Page through the conversation from the prompt."""
        event.stop()
        if event.pages < 0:
            self.talk.scroll_page_up(animate=False)
        else:
            self.talk.scroll_page_down(animate=False)

    def on_prompt_earlier_wanted(self, event: Prompt.EarlierWanted) -> None:
        """Up in the empty prompt changes the last question."""
        event.stop()
        if self.conversation.turns and not self.answering:
            self.action_edit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what makes sense now is offered."""
        last = self.conversation.last
        if action == "stop":
            return self.answering
        if action in _ON_IDLE and self.answering:
            return False
        if action == "pick_model":
            return bool(self.ready_models)
        if action == "thinking":
            return bool(last and last.answer.reasoning)
        return bool(last) if action in _ON_TURNS else True

    def action_stop(self) -> None:
        """Stop the answer; what has come stays."""
        if self._worker is not None:
            self._worker.cancel()

    def action_back(self) -> None:
        """One step back: stop the answer, leave the old question as it was, leave the prompt."""
        if self.answering:
            self.action_stop()
        elif self._editing:
            self.prompt.clear()
            self._end_editing()
        elif self.prompt.has_focus:
            self.talk.focus()
        else:
            raise SkipAction

    def action_retry(self) -> None:
        """Ask the last question again."""
        model = self._free_model()
        last = self.conversation.last
        if model is None or last is None:
            return
        if self._editing or self.prompt.text == last.question:
            self.prompt.clear()
        self._end_editing()
        again = self.conversation.ask_again(model, time.monotonic())
        if again is not None:
            self.talk.draw_last()
            self.talk.to_end()
            self._begin(*again)

    def action_edit(self) -> None:
        """The last question back into the prompt."""
        last = self.conversation.last
        if last is None or self.answering or self._editing:
            return
        if self.prompt.text not in ("", last.question):
            text = "The prompt holds another text. Send or delete it first."
            self.notify(text, severity="warning", markup=False)
            return
        self._editing = True
        self.prompt.text = last.question
        self.prompt.move_cursor(self.prompt.document.end)
        self.prompt.border_title = Content(EDITING)
        self.prompt.focus()

    def _end_editing(self) -> None:
        self._editing = False
        self.prompt.border_title = Content("")
