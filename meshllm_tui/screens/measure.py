"""Which model's codecs to measure, where cut; a refusal is shown here, to be put right."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState

from meshllm_core.errors import MeshError, describe
from meshllm_tui.certify_words import CODECS, read_codecs, read_cuts
from meshllm_tui.cleaning import one_line
from meshllm_tui.present import Line, Span, error_lines, line, muted
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.widgets.pane import KeyedList
from meshllm_tui.widgets.styled import content

WORDS = (
    "The model is loaded once more, beside what runs, and computes when nothing else does: minutes for a "
    "small one, hours for a large one. The result is signed; splits with the same cuts may use it."
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured."""

    model: str
    cuts: tuple[int, ...]
    codecs: tuple[str, ...]


class MeasureScreen(Dialog[Wish]):
    """Asks, and passes it to `submit`, which raises MeshError for a refusal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Back", show=False),
        Binding("down", "app.focus_next", "Next", show=False),
    ]

    def __init__(
        self, submit: Callable[[Wish], Awaitable[None]], known: Sequence[str], wish: Wish | None = None
    ) -> None:
        super().__init__()
        self._submit = submit
        self._known = tuple(dict.fromkeys(one_line(each, 200) for each in (*known, "default")))[:8]
        self._wish = wish or Wish(self._known[0], (), ())

    def compose(self) -> ComposeResult:
        """Three boxes, the models that are known, what it costs."""
        wish = self._wish
        with Vertical(classes="dialog", id="measure") as frame:
            frame.border_title = Content("Measure the codecs of a model")
            frame.border_subtitle = Content("Enter begins, Esc closes")
            for label, id, text, hint in (
                ("Model", "model", wish.model, "a name, a .gguf file, owner/repo:QUANT"),
                ("Cut at", "cuts", ", ".join(map(str, wish.cuts)), "first layers; empty: the middle"),
                ("Codecs", "codecs", ", ".join(wish.codecs), f"empty: {', '.join(CODECS)}"),
            ):
                with Horizontal(classes="field"):
                    yield Static(label, classes="label", markup=False)
                    yield Input(text, placeholder=hint, max_length=1000, compact=True, id=f"measure-{id}")
            yield KeyedList(
                *(Option(Content(each)) for each in self._known), id="measure-known", markup=False
            )
            yield Static(content([line(muted(WORDS))]), classes="hint", markup=False)
            yield Static(id="measure-note", classes="note", markup=False)
            with Horizontal(classes="buttons"):
                yield Button(Content("Measure"), id="measure-go", compact=True)
                yield Button(Content("Cancel"), id="measure-cancel", compact=True)

    def on_mount(self) -> None:
        """The keyboard at the model."""
        for box in self.query(Input):
            box.cursor_blink = False
        self.query_one("#measure-model").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """An old refusal goes."""
        event.stop()
        self._say(())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in any box begins."""
        event.stop()
        self._try()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take a model from the list."""
        event.stop()
        self.query_one("#measure-model", Input).value = self._known[event.option_index]
        self.query_one("#measure-cuts").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Begin, or not."""
        event.stop()
        if event.button.id == "measure-go":
            self._try()
        else:
            self.dismiss(None)

    def _try(self) -> None:
        model, cuts, codecs = (
            self.query_one(f"#measure-{id}", Input).value.strip() for id in ("model", "cuts", "codecs")
        )
        layers, labels = read_cuts(cuts), read_codecs(codecs)
        wrong = next((each for each in (layers, labels) if isinstance(each, str)), "")
        if not model:
            wrong = "Write which model, or take one from the list."
        if wrong or isinstance(layers, str) or isinstance(labels, str):
            self._say((line(Span(wrong, "warn")),))
            return
        self._say((line(Span("◌ asking the node…", "accent")),))
        wish = Wish(model, layers, labels)
        self.run_worker(self._send(wish), group="measure", exclusive=True, exit_on_error=False)

    async def _send(self, wish: Wish) -> None:
        try:
            await self._submit(wish)
        except MeshError as error:
            self._say(error_lines(error.message, error.hint))
        else:
            self.dismiss(wish)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one("#measure-note", Static)
        note.display = bool(lines)
        note.update(content(lines))
