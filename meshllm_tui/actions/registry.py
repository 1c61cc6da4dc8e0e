"""Every action of the dashboard, once: keys, footer, help and palette are made from these tables.

No Textual at import, so that documentation can be made from it too.
"""

from collections.abc import Iterator

from meshllm_tui.actions import activity, certify, chat, frame, mesh, models, plan, requests, settings, split
from meshllm_tui.actions.action import Action, Place

_TABLES = (frame, mesh, models, split, plan, certify, chat, requests, activity, settings)

PLACES: dict[str, Place] = {place.name: place for table in _TABLES for place in table.PLACES}
ACTIONS: tuple[Action, ...] = tuple(action for table in _TABLES for action in table.ACTIONS)
EXTRA_HELP: tuple[tuple[str, str, str], ...] = tuple(row for table in _TABLES for row in table.EXTRA_HELP)
"""Keys that come with the widgets: told in the help, not in the tables."""


def actions_of(*places: str) -> Iterator[Action]:
    """The actions of some places, in the tables' order."""
    return (action for action in ACTIONS if action.place in places)


def help_rows() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """For each place its title and its keys with what they do."""
    for name, place in PLACES.items():
        rows = [(action.shown, action.help) for action in actions_of(name) if action.shown]
        rows += [(keys, text) for where, keys, text in EXTRA_HELP if where == name]
        yield place.title, rows
