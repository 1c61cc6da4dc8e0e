"""`meshllm keys`: every action of the dashboard with its id and its keys, for a key map of one's own."""

import os

from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json, table
from meshllm_core.config import load_settings
from meshllm_core.paths import default_paths
from meshllm_tui.actions.registry import ACTIONS, PLACES, keys_shown
from meshllm_tui.preferences import read_preferences


def keys(as_json: AsJson = False) -> None:
    """List the dashboard's actions with their keys; the setting `keys` names a file that changes them."""
    settings = load_settings(default_paths(), environ=os.environ)
    own = read_preferences(settings.theme, settings.keys, settings.mouse).keys
    if as_json:
        rows = [
            {
                "id": action.id,
                "keys": [each for each in own.get(action.id, action.keys).split(",") if each],
                "place": PLACES[action.place].title,
                "help": action.help,
            }
            for action in ACTIONS
        ]
        emit_json({"actions": rows})
        return
    lines = [
        (action.id, keys_shown(action, own) or "-", PLACES[action.place].title, action.help)
        for action in ACTIONS
    ]
    emit(table(("action", "keys", "where", "what it does"), lines))
