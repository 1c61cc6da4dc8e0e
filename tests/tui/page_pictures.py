"""What the tests of pages' pictures share: a page that is opened by its digit, once the node has answered."""

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from meshllm_tui.app import MeshApp

Compare = Callable[..., bool]


def page(digit: str, *pressed: str) -> Callable[[Pilot[Any]], Any]:
    """Opens the page of that digit and presses keys on it."""

    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, MeshApp)
        for _ in range(500):
            if app.session.snapshot is not None:
                break
            await pilot.pause(0.01)
        await pilot.press(digit)
        await pilot.pause(0.1)
        await pilot.press(*pressed)
        await pilot.pause(0.3)

    return run
