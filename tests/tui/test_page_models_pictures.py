"""How the page of models looks.

After a wanted change: `pytest tests/tui/test_page_models_pictures.py --snapshot-update`; look at them.
"""

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from tests.tui.conftest import make_app
from tests.tui.model_samples import client
from tests.tui.samples import ScriptedClient, bare

Compare = Callable[..., bool]


def opened(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """Opens the page and presses keys, once what it asks is answered."""

    async def press(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, MeshApp)
        for _ in range(500):
            if app.session.snapshot is not None:
                break
            await pilot.pause(0.01)
        for key in ("2", *keys):
            await pilot.press(key)
            await pilot.pause(0.3)

    return press


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_models(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(make_app(client()), terminal_size=size, run_before=opened())


def test_models_light(snap_compare: Compare) -> None:
    app = make_app(client(), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=opened("tab", "tab", "j"))


def test_models_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_app(client()), terminal_size=(120, 40), run_before=opened("tab"))


def test_models_search(snap_compare: Compare) -> None:
    keys = opened("slash", *"qwen", "enter", "down", "end", "up")
    assert snap_compare(make_app(client()), terminal_size=(80, 24), run_before=keys)


def test_models_downloads_narrow(snap_compare: Compare) -> None:
    assert snap_compare(make_app(client()), terminal_size=(60, 20), run_before=opened("tab"))


def test_models_split_question(snap_compare: Compare) -> None:
    keys = opened("end", "up", "enter")
    assert snap_compare(make_app(client()), terminal_size=(80, 24), run_before=keys)


def test_models_empty(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=bare(), replies=client().replies))
    assert snap_compare(app, terminal_size=(120, 40), run_before=opened())
