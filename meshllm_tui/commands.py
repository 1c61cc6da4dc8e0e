"""The command palette: every action of the registry, and the models by name."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.types import IgnoreReturnCallbackType

from meshllm_tui.actions.registry import ACTIONS, PLACES, keys_shown
from meshllm_tui.chat_models import chat_models
from meshllm_tui.cleaning import one_line

if TYPE_CHECKING:
    from meshllm_tui.app import MeshApp


class _Command(NamedTuple):
    title: str
    help: str
    run: IgnoreReturnCallbackType


class RegistryCommands(Provider):
    """What can be done, found by name."""

    @property
    def _app(self) -> "MeshApp":
        return cast("MeshApp", self.app)

    def _commands(self) -> Iterator[_Command]:
        for action in ACTIONS:
            if action.palette:
                place, keys = PLACES[action.place], keys_shown(action, self._app.key_map)
                where = f"{place.title}: " if place.page else ""
                title = f"{where}{action.help.rstrip('.')}"
                yield _Command(
                    title,
                    f"Key: {keys}" if keys else "No key of its own",
                    partial(self._app.perform, action),
                )
        for model in chat_models(self._app.session.snapshot):
            name = one_line(model.id, 80)
            yield _Command(
                f"Chat with {name}", "A model that is ready", partial(self._app.chat_with, model.id)
            )

    async def discover(self) -> Hits:
        """All of them, while nothing is written."""
        for command in self._commands():
            yield DiscoveryHit(Content(command.title), command.run, command.title, command.help)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for command in self._commands():
            score = matcher.match(command.title)
            if score > 0:
                # Matcher.highlight would read brackets in a model's name as markup.
                yield Hit(score, Content(command.title), command.run, command.title, command.help)
