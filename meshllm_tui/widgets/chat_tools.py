"""What can be done with the open conversation besides talking: copying, exporting, system prompt, model."""

from functools import partial

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.style import Style

from meshllm_core.ids import ModelId
from meshllm_tui.chat_models import ChatModel
from meshllm_tui.cleaning import fit
from meshllm_tui.conversation import Conversation
from meshllm_tui.screens.chat_desk import ChatDesk
from meshllm_tui.widgets.prompt import Prompt
from meshllm_tui.widgets.talk import Talk


class ChatTools(Vertical):
    """The part of the chat's pane that asks no model."""

    class Changed(Message):
        """Something of the conversation should be kept; `listed`: the list shows it too."""

        def __init__(self, conversation: Conversation, *, listed: bool = True) -> None:
            super().__init__()
            self.conversation = conversation
            self.listed = listed

    class Wanted(Message):
        """A person asked for another conversation: new, or one of the list."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self) -> None:
        super().__init__(id="chat", classes="pane")
        self.ready_models: tuple[ChatModel, ...] = ()
        """Models that can chat now, here or on another member."""
        self.conversation = Conversation()
        """What is shown and continued."""

    @property
    def talk(self) -> Talk:
        """The turns."""
        return self.query_one(Talk)

    @property
    def prompt(self) -> Prompt:
        """Where a person writes."""
        return self.query_one("#prompt", Prompt)

    @property
    def desk(self) -> ChatDesk:
        """For what is asked with dialogs."""
        return ChatDesk(self.app)

    def use(self, model: ModelId) -> None:
        """Let `model` answer from now on."""
        raise NotImplementedError

    def show_system(self) -> None:
        """Tell the system prompt above the first question."""
        system = self.conversation.system
        words = Content.assemble(("System prompt  ", "$accent-text"), (fit(system, 200), "$muted"))
        line = words.stylize(Style.from_meta({"system": True}))
        self.talk.set_header([line, Content("")] if system else [])

    def on_talk_system_wanted(self, event: Talk.SystemWanted) -> None:
        """A click on the system prompt changes it."""
        event.stop()
        self.action_system()

    def action_pick_model(self) -> None:
        """Choose the model that answers."""
        self.desk.pick_model(self.ready_models, lambda model: self.use(ModelId(model)))

    def action_system(self) -> None:
        """Write the system prompt."""
        self.desk.write_system(self.conversation, partial(self._set_system, self.conversation))

    def _set_system(self, conversation: Conversation, text: str) -> None:
        conversation.system = text
        if conversation is self.conversation:
            self.show_system()
        if conversation.turns:
            self.post_message(self.Changed(conversation))

    def action_thinking(self) -> None:
        """Show or hide the last answer's reasoning."""
        if not self.talk.toggle_thinking():
            self.notify("The last answer has no reasoning apart.", markup=False)

    def action_copy(self) -> None:
        """Copy the last answer's text."""
        self.desk.copy_answer(self.conversation)

    def action_copy_code(self) -> None:
        """Copy a code block of the last answer."""
        self.desk.copy_code(self.conversation)

    def action_copy_all(self) -> None:
        """Copy the conversation as Markdown."""
        self.desk.copy_all(self.conversation)

    def action_export(self) -> None:
        """Write the conversation into a file."""
        self.desk.export(self.conversation)

    def action_new(self) -> None:
        """Begin another conversation."""
        self.post_message(self.Wanted("new"))

    def action_list(self) -> None:
        """Go to the list of conversations."""
        self.post_message(self.Wanted("list"))
