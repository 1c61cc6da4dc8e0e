"""How the pages of certificates and settings look, at the sizes and in the colours that are promised.

After a wanted change: `pytest tests/tui/test_page_certify_pictures.py --snapshot-update`, and look.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.app import MeshApp
from meshllm_tui.pages.certify import CertifyPage
from meshllm_tui.pages.settings import SettingsPage
from tests.tui.certify_samples import certificates, config, measuring
from tests.tui.conftest import make_app
from tests.tui.samples import ScriptedClient
from tests.tui.test_snapshots import settle

Compare = Callable[..., bool]
Before = Callable[[Pilot[Any]], Awaitable[None]]
SIZES = [(60, 20), (80, 24), (120, 40)]


def app(theme: str = "meshllm-dark") -> MeshApp:
    client = ScriptedClient(state=measuring())
    client.replies |= {"certificates": certificates(), "config": config()}
    return make_app(client, theme=theme)


def pressing(*keys: str) -> Before:
    """Opens a page, waits for what it asked, then presses the rest."""

    async def press(pilot: Pilot[Any]) -> None:
        await settle(pilot)
        await pilot.press(keys[0])
        for _ in range(500):
            page = pilot.app.screen
            if isinstance(page, CertifyPage) and page.is_mounted and page.records.answer is not None:
                break
            if isinstance(page, SettingsPage) and page.is_mounted and page.listed.answer is not None:
                break
            await pilot.pause(0.01)
        await pilot.pause()
        await pilot.press(*keys[1:])
        await pilot.pause()

    return press


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_certificates(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app(), terminal_size=size, run_before=pressing("5"))


def test_certificates_light(snap_compare: Compare) -> None:
    assert snap_compare(app("meshllm-light"), terminal_size=(120, 40), run_before=pressing("5"))


def test_certificates_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app(), terminal_size=(120, 40), run_before=pressing("5"))


def test_opposites(snap_compare: Compare) -> None:
    assert snap_compare(app(), terminal_size=(120, 40), run_before=pressing("5", "o", "j"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_settings(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(app(), terminal_size=size, run_before=pressing("0", "j", "j"))


def test_settings_light(snap_compare: Compare) -> None:
    before = pressing("0", "j", "j", "enter")
    assert snap_compare(app("meshllm-light"), terminal_size=(120, 40), run_before=before)


def test_settings_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    before = pressing("0", "slash", "w", "i", "r", "e", "underscore", "enter", "enter")
    assert snap_compare(app(), terminal_size=(120, 40), run_before=before)
