"""Which model to load: a name, a file, a repository."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_tui.cleaning import one_line
from meshllm_tui.present import Line, Span, error_lines, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.pane import KeyedList
from meshllm_tui.widgets.styled import content

REF_LIMIT = 1000
"""Characters of a reference."""
SUGGESTIONS: tuple[tuple[str, str], ...] = (
    ("auto", "the best model that fits this machine's memory"),
    ("default", "SmolLM2-135M, small, comes with meshllm"),
)
FORMS: tuple[Line, ...] = (
    line(muted("Also a path to a .gguf file, or owner/repo:QUANT,")),
    line(muted("such as unsloth/Qwen3-4B-GGUF:Q4_K_M.")),
)


class LoadScreen(Dialog[str]):
    """Asks for a reference and passes it to `submit`; a refusal is shown here, to be put right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "suggestions", "Suggestions", key_display="↓"),
        Binding("enter", "none", "Load", key_display="Enter"),
    ]

    def __init__(self, submit: Callable[[str], Awaitable[None]], known: Sequence[str] = ()) -> None:
        super().__init__()
        self._submit = submit
        fixed = {ref for ref, _ in SUGGESTIONS}
        asked = [(ref, "asked for before") for ref in dict.fromkeys(known) if ref not in fixed]
        self._all = (*SUGGESTIONS, *asked[:20])
        self._shown = self._all

    def compose(self) -> ComposeResult:
        """The input, what it takes, suggestions, and room for a refusal."""
        with Vertical(classes="dialog") as frame:
            frame.border_title = Content("Load a model")
            frame.border_subtitle = Content("Enter loads, Esc closes")
            yield Input(placeholder="name, file or repository", max_length=REF_LIMIT, compact=True)
            yield KeyedList(id="suggestions", markup=False)
            yield Static(content(FORMS), classes="hint", markup=False)
            yield Static(id="load-note", markup=False)

    def on_mount(self) -> None:
        """All suggestions, and the keyboard at the input."""
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).focus()
        self._suggest("")

    def _suggest(self, text: str) -> None:
        wanted = text.strip().lower()
        self._shown = tuple(each for each in self._all if wanted in each[0].lower())
        rows = [
            content([line(Span(one_line(ref, 80), "accent"), muted(f"  {why}"))]) for ref, why in self._shown
        ]
        suggestions = self.query_one("#suggestions", KeyedList)
        suggestions.set_options([Option(row) for row in rows])
        suggestions.display = bool(rows)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Fewer suggestions while a person writes; an old refusal goes."""
        event.stop()
        self._suggest(event.value)
        self._say(())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Try what is written."""
        event.stop()
        self._try(event.value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Try a suggestion."""
        event.stop()
        ref = self._shown[event.option_index][0]
        self.query_one(Input).value = ref
        self._try(ref)

    def _try(self, ref: str) -> None:
        if not ref.strip():
            self._say((line(Span("Write which model, or take a suggestion with ↓.", "warn")),))
            return
        self._say((line(Span("◌ asking the node…", "accent")),))
        self.run_worker(self._send(ref.strip()), group="load", exclusive=True, exit_on_error=False)

    async def _send(self, ref: str) -> None:
        try:
            await self._submit(ref)
        except MeshError as error:
            self._say(error_lines(error.message, error.hint))
        else:
            self.dismiss(ref)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one("#load-note", Static)
        note.display = bool(lines)
        note.update(content(lines))

    def action_suggestions(self) -> None:
        """Go from the input to the first suggestion."""
        suggestions = self.query_one("#suggestions", KeyedList)
        if suggestions.display:
            suggestions.focus()
            suggestions.highlighted = 0

    def action_none(self) -> None:
        """The input and the list answer Enter themselves; this names the key in the footer."""
