"""The first run: four questions, then what came of them. Nothing is changed before the end; Esc skips all."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, ContentSwitcher, Input, OptionList, Static
from textual.worker import Worker, WorkerState

from meshllm_core.api.schema_config import Config
from meshllm_core.api.schema_models import Catalog, CatalogModel
from meshllm_core.errors import MeshError, describe
from meshllm_tui.cleaning import one_line
from meshllm_tui.messages import SnapshotChanged
from meshllm_tui.present import Line, Span, error_lines, line
from meshllm_tui.screens.dialog import Dialog
from meshllm_tui.session import Session
from meshllm_tui.welcome_words import (
    KEEP,
    MESHES,
    NAME_LIMIT,
    STEPS,
    TEXTS,
    Outcome,
    Wishes,
    done_lines,
    keep_line,
    memory_choices,
    memory_line,
    mesh_line,
    model_choices,
    model_line,
)
from meshllm_tui.widgets.pane import RowList
from meshllm_tui.widgets.styled import content

DONE = "done"
WIDTH = 78
"""Cells of the dialog, as its style sheet says."""


class WelcomeScreen(Dialog[str]):
    """Gives back "invite" or "join" where a person wants that next, else "alone"; None when skipped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f7", "back", "Back", key_display="F7", tooltip="The question before."),
        Binding("f8", "next", "Next", key_display="F8", tooltip="The next question."),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._step = STEPS[0]
        self._models: dict[str, CatalogModel] = {}
        self._known = ("", 0.0)
        """Name and memory as they are configured."""
        self._applying = False
        self._called = ""
        """The name that was put into the box; what else is there a person wrote."""

    def compose(self) -> ComposeResult:
        """A step each, room for a refusal, the buttons."""
        with Vertical(classes="dialog", id="welcome") as frame:
            frame.border_title = Content("Welcome to meshllm")
            with ContentSwitcher(initial=f"step-{STEPS[0]}"):
                with Vertical(id="step-name"):
                    yield Static(content(TEXTS["name"]), markup=False)
                    yield Input(id="welcome-name", max_length=NAME_LIMIT, compact=True)
                for step in STEPS[1:]:
                    with Vertical(id=f"step-{step}"):
                        yield Static(content(TEXTS[step]), markup=False)
                        yield RowList(f"welcome-{step}", "", classes="")
                with Vertical(id=f"step-{DONE}"):
                    yield Static(id="welcome-done", markup=False)
            yield Static(id="welcome-note", classes="note", markup=False)
            with Horizontal(classes="buttons"):
                yield Button(Content("Back"), id="welcome-back", compact=True)
                yield Button(Content("Next"), id="welcome-next", compact=True)
                yield Button(Content("Skip it all"), id="welcome-skip", compact=True)

    def on_mount(self) -> None:
        """The node may know better than this program what it is called."""
        self.query_one(Input).cursor_blink = False
        self._draw_name()
        meshes = self.query_one("#welcome-mesh", RowList)
        meshes.show_rows([each[0] for each in MESHES], [(mesh_line(each),) for each in MESHES])
        self._draw_memory()
        self._to(STEPS[0])
        self.run_worker(self._ask_config(), group="config", exit_on_error=False)
        self.run_worker(self._ask_catalog(), group="catalog", exit_on_error=False)

    def on_resize(self) -> None:
        """The models' names are cut for the width."""
        if self._models:
            self._draw_models()

    def on_snapshot_changed(self, event: SnapshotChanged) -> None:
        """Name and hardware may have been told only now: a node that starts tells them after its id."""
        event.stop()
        self._draw_name()
        self._draw_memory()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the dashboard's own must not look like waiting."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self._applying = False
            self._say(error_lines(describe(event.worker.error), "Please report it with the log."))

    async def _ask_config(self) -> None:
        try:
            rows = {row.key: row for row in (await self._session.client.ask("config", Config)).rows}
        except MeshError:
            # What is configured is then only written where a person changes it.
            return
        name, memory = (rows[key].text if key in rows else "" for key in ("node_name", "max_vram"))
        self._known = (name, _figure(memory))
        self._draw_memory()
        if self._step == STEPS[0]:
            self.query_one("#welcome-memory", RowList).highlighted = 0

    async def _ask_catalog(self) -> None:
        shown = self.query_one("#welcome-model", RowList)
        shown.show_note((line(Span("◌ looking what fits this machine…", "accent")),))
        try:
            catalog = await self._session.client.ask("catalog", Catalog)
        except MeshError as error:
            self._draw_models()
            self._say((line(Span(f"The catalogue cannot be read: {one_line(error.message, 200)}", "warn")),))
        else:
            self._models = {model.ref: model for model in model_choices(catalog)}
            self._draw_models()

    def _draw_models(self) -> None:
        shown, memory = self.query_one("#welcome-model", RowList), self._memory
        # The frame, its padding, that of a row, and a scroll bar: with it rows must not need more lines.
        width = min(WIDTH, self.app.size.width * 95 // 100) - 10
        rows = [(model_line(model, memory, width),) for model in self._models.values()]
        shown.show_rows([KEEP, *self._models], [(keep_line(self._session.snapshot, width),), *rows])

    def _draw_name(self) -> None:
        snapshot, box = self._session.snapshot, self.query_one(Input)
        if snapshot is not None and box.value == self._called:
            box.value = self._called = one_line(snapshot.name, NAME_LIMIT)

    def _draw_memory(self) -> None:
        snapshot = self._session.snapshot
        if snapshot is not None:
            choices = memory_choices(snapshot, self._known[1])
            shown = self.query_one("#welcome-memory", RowList)
            shown.show_rows([f"{each[0]:g}" for each in choices], [(memory_line(each),) for each in choices])

    @property
    def _memory(self) -> float:
        return float(self.query_one("#welcome-memory", RowList).chosen or 0.0)

    def _to(self, step: str) -> None:
        """Show a step, and give it the keyboard."""
        self._step = step
        self._say(())
        self.query_one(ContentSwitcher).current = f"step-{step}"
        done = step == DONE
        if step == "model" and self._models:
            self._draw_models()
        keys = f"Enter next, {'' if step == STEPS[0] else 'F7 back, '}Esc skips it all"
        place = "" if done else f"{STEPS.index(step) + 1} of {len(STEPS)} · "
        frame = self.query_one("#welcome", Vertical)
        frame.border_subtitle = Content(place + ("Enter closes" if done else keys))
        self.query_one("#welcome-back").display = not done and step != STEPS[0]
        self.query_one("#welcome-skip").display = not done
        label = "Go on" if done else "Finish" if step == STEPS[-1] else "Next"
        self.query_one("#welcome-next", Button).label = Content(label)
        self.query_one("#welcome-next" if done else f"#welcome-{step}").focus()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing before the first step, nor after the end."""
        if action == "back":
            return self._step not in (STEPS[0], DONE) and not self._applying
        return action != "next" or not self._applying

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on."""
        event.stop()
        self.action_next()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter, or a click, takes the row and goes on."""
        event.stop()
        self.action_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The same as the keys."""
        event.stop()
        match event.button.id:
            case "welcome-back":
                self.action_back()
            case "welcome-skip":
                self.action_close()
            case _:
                self.action_next()

    def action_back(self) -> None:
        """The question before."""
        if self._step in STEPS[1:]:
            self._to(STEPS[STEPS.index(self._step) - 1])

    def action_next(self) -> None:
        """The next question; after the last one, do it."""
        if self._applying:
            return
        if self._step == DONE:
            self.dismiss(self.wishes.mesh)
        elif self._step == STEPS[-1]:
            self._applying = True
            self._say((line(Span("◌ asking the node…", "accent")),))
            self.run_worker(self._apply(self.wishes), group="apply", exclusive=True, exit_on_error=False)
        else:
            self._to(STEPS[STEPS.index(self._step) + 1])

    @property
    def wishes(self) -> Wishes:
        """What is chosen now."""
        return Wishes(
            name=self.query_one(Input).value.strip(),
            memory=self._memory,
            model=self.query_one("#welcome-model", RowList).chosen or KEEP,
            mesh=self.query_one("#welcome-mesh", RowList).chosen or "alone",
        )

    async def _apply(self, wishes: Wishes) -> None:
        outcomes: list[Outcome] = []
        snapshot = self._session.snapshot
        called = self._known[0] or (snapshot.name if snapshot is not None else "")
        if wishes.name and wishes.name != called:
            outcomes.append(await self._configure("node_name", wishes.name))
        if wishes.memory != self._known[1]:
            outcomes.append(await self._configure("max_vram", f"{wishes.memory:g}"))
        if wishes.model != KEEP:
            outcomes.append(await self._load(wishes.model))
            if outcomes[-1].ok:
                outcomes.append(await self._configure("models", wishes.model))
        self._applying = False
        self.query_one("#welcome-done", Static).update(content(done_lines(outcomes, wishes)))
        self._to(DONE)

    async def _configure(self, key: str, value: str) -> Outcome:
        try:
            done = await self._session.act("configure", key=key, value=value)
        except MeshError as error:
            return Outcome(False, error.message, error.hint)
        words = str(done.get("words", f"{key} is written."))
        # The model is loaded without that.
        return Outcome(True, words, at_next_start=key != "models" and "next start" in words)

    async def _load(self, ref: str) -> Outcome:
        try:
            await self._session.act("load", model=ref)
        except MeshError as error:
            return Outcome(False, error.message, error.hint)
        model = self._models.get(ref)
        coming = "is being loaded" if model is not None and model.here else "is being fetched, then loaded"
        return Outcome(True, f"{ref} {coming}; Models shows how far it is.")

    def _say(self, lines: tuple[Line, ...]) -> None:
        note = self.query_one("#welcome-note", Static)
        note.display = bool(lines)
        note.update(content(lines))


def _figure(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
