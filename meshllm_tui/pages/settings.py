"""The page of settings: every key with its help and where its value comes from; changed in place."""

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal

from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.errors import MeshError
from meshllm_tui.cleaning import one_line
from meshllm_tui.keys import bindings_of
from meshllm_tui.pages.page import MEDIUM, KeyedPage
from meshllm_tui.present import Line, NodeView, Span, error_lines, line
from meshllm_tui.settings_rows import THEME
from meshllm_tui.themes import THEMES
from meshllm_tui.widgets.search_list import SearchList
from meshllm_tui.widgets.setting_pane import SettingPane
from meshllm_tui.widgets.settings_pane import SettingsPane


class SettingsPage(KeyedPage):
    """The keys left, the chosen one right."""

    NAME = "settings"
    PANES = ("keys-of-config", "setting")
    FIRST = "keys-of-config"
    BINDINGS = bindings_of("settings")
    _link = ""
    """As it was when the page was drawn last."""

    def body(self) -> ComposeResult:
        """The panes."""
        with Horizontal(id="settings-panes"):
            yield SettingsPane()
            yield SettingPane()

    @property
    def listed(self) -> SettingsPane:
        """The list."""
        return self.query_one(SettingsPane)

    @property
    def setting(self) -> SettingPane:
        """The chosen one."""
        return self.query_one(SettingPane)

    def place_panes(self) -> None:
        """Both where there is room; else the one with the keyboard."""
        narrow, setting = self.app.size.width < MEDIUM, self.active == "setting"
        self.query_one("#keys-of-config").display = not (narrow and setting)
        self.query_one("#setting").display = not narrow or setting

    def on_mount(self) -> None:
        """Ask at once."""
        super().on_mount()
        self._theme = self.app.theme
        self._ask()

    def show(self, view: NodeView) -> None:
        """Draw what is new; ask anew when the node is back, which may have been started otherwise."""
        super().show(view)
        if view.link == "live" and self._link not in ("", "live"):
            self._ask()
        self._link = view.link

    @work(group="config", exclusive=True, exit_on_error=False)
    async def _ask(self) -> None:
        answer: Config | MeshError
        try:
            answer = await self.session.client.ask("config", Config)
        except MeshError as error:
            answer = error
            if isinstance(self.listed.answer, Config):
                self.notify(str(error)[:300], severity="warning", markup=False)
        self._take(answer)

    def _take(self, answer: Config | MeshError | None) -> None:
        self.listed.take(answer)
        self.listed.show(self.session.view())
        self._tell()

    def _tell(self) -> None:
        self.setting.choose(self.listed.chosen, self.listed.file)
        self.refresh_bindings()

    def on_search_list_searched(self, event: SearchList.Searched) -> None:
        """List what is found."""
        event.stop()
        self.listed.draw()

    def on_search_list_moved(self, event: SearchList.Moved) -> None:
        """Show the chosen setting."""
        event.stop()
        self._tell()

    def on_search_list_opened(self, event: SearchList.Opened) -> None:
        """Change it."""
        event.stop()
        self.action_edit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Most need a chosen setting; back to its default goes only what the file names."""
        if action not in ("edit", "copy", "reset"):
            return True
        row = self.listed.chosen if self.is_mounted else None
        return row is not None and (action != "reset" or row.in_file)

    def action_search(self) -> None:
        """Write a search."""
        self.go("keys-of-config")
        self.listed.focus_search()

    def action_ask(self) -> None:
        """Read the settings again."""
        self._ask()

    def action_copy(self) -> None:
        """Copy the chosen setting as config.toml writes it."""
        row = self.listed.chosen
        if row is not None:
            value = '""  # a secret, not shown' if row.secret else row.value
            self.app.copy_to_clipboard(f"{row.key} = {value}")
            self.notify(f"Copied {row.key}.", markup=False)

    def action_edit(self) -> None:
        """Change the chosen setting."""
        if self.listed.chosen is not None:
            self._theme = self.app.theme
            self._tell()
            self._activate("setting")
            themes = [theme.name for theme in THEMES] if self.listed.chosen.key == THEME else ()
            self.setting.edit(themes)

    def action_reset(self) -> None:
        """Take the key out of config.toml again."""
        row = self.listed.chosen
        if row is not None and row.in_file:
            self._write(row, None)

    def on_setting_pane_left(self, event: SettingPane.Left) -> None:
        """Nothing was changed, and colours that were tried go back."""
        event.stop()
        if event.row.key == THEME:
            self.app.theme = self._theme
        self.go("keys-of-config")

    def on_setting_pane_tried(self, event: SettingPane.Tried) -> None:
        """Colours are tried at once."""
        event.stop()
        if event.row.key == THEME:
            self._wear(event.value)

    def on_setting_pane_written(self, event: SettingPane.Written) -> None:
        """Ask the node to write it."""
        event.stop()
        self._write(event.row, event.value)

    @work(group="configure", exclusive=True, exit_on_error=False)
    async def _write(self, row: ConfigRow, value: str | None) -> None:
        self.setting.say((line(Span("◌ asking the node…", "accent")),))
        try:
            done = await self.session.act("configure", key=row.key, value=value)
        except MeshError as error:
            self.setting.say(error_lines(error.message, error.hint))
            self.app.bell()
            return
        if row.key == THEME:
            self._wear(value or row.default.strip('"'))
            self._theme = self.app.theme
        words = one_line(str(done.get("words", "Written.")), 300)
        tone = "warn" if done.get("effect") == "none" else "ok"
        mark = "!" if tone == "warn" else "✓"
        self._done((line(Span(f"{mark} {words}", "warn" if tone == "warn" else "ok")),))
        self._ask()

    def _wear(self, theme: str) -> None:
        """Take these colours; those of a file are read when the dashboard is opened again."""
        self.app.theme = theme if theme in self.app.available_themes else self._theme

    def _done(self, lines: tuple[Line, ...]) -> None:
        self.setting.close()
        self.setting.say(lines)
        self.go("keys-of-config")
        if self.app.size.width < MEDIUM:
            self.notify("".join(span.text for span in lines[0]), markup=False)
