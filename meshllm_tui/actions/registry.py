"""Every action of the dashboard, once: keys, footer, help and palette are made from these tables.

No Textual at import, so that documentation can be made from it too.
"""

from collections.abc import Iterator, Mapping

from meshllm_tui.actions import (
    activity,
    certify,
    chat,
    frame,
    invite,
    mesh,
    models,
    plan,
    requests,
    settings,
    split,
)
from meshllm_tui.actions.action import Action, Place

_TABLES = (frame, mesh, models, split, plan, certify, invite, chat, requests, activity, settings)

PLACES: dict[str, Place] = {place.name: place for table in _TABLES for place in table.PLACES}
ACTIONS: tuple[Action, ...] = tuple(action for table in _TABLES for action in table.ACTIONS)
EXTRA_HELP: tuple[tuple[str, str, str], ...] = tuple(row for table in _TABLES for row in table.EXTRA_HELP)
"""Keys that come with the widgets: told in the help, not in the tables."""


def actions_of(*places: str) -> Iterator[Action]:
    """The actions of some places, in the tables' order."""
    return (action for action in ACTIONS if action.place in places)


def keys_shown(action: Action, key_map: Mapping[str, str]) -> str:
    """The keys of an action as people know them; `key_map` has those that a person changed."""
    own = key_map.get(action.id)
    return action.shown if own is None else ", ".join(map(_known, own.split(",")))


def _known(key: str) -> str:
    """ctrl+u as Ctrl+U, f5 as F5, u as u."""
    first, *rest = key.split("+")
    return "+".join([first.capitalize() if len(first) > 1 else first, *(part.capitalize() for part in rest)])


def help_rows(key_map: Mapping[str, str], page: str = "") -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """For each place its title and its keys with what they do; the places of `page` come first."""
    for name, place in sorted(PLACES.items(), key=lambda item: item[1].page != page):
        shown = ((keys_shown(action, key_map), action.help) for action in actions_of(name))
        rows = [(keys, text) for keys, text in shown if keys]
        rows += [(keys, text) for where, keys, text in EXTRA_HELP if where == name]
        yield place.title, rows
