"""Pictures of the screen that a person asks for."""

import os
from pathlib import Path

import pytest

from tests.tui.conftest import Screen, dashboard


async def taken(screen: Screen) -> None:
    """Ask for a picture as a person does, and wait for what is said of it."""
    await screen.press("ctrl+p", *"screenshot")
    await screen.until(lambda: "Save a picture of this screen" in screen.text)
    await screen.pilot.pause(0.5)
    await screen.press("enter")
    await screen.until(lambda: bool(screen.toasts))


@pytest.mark.parametrize("downloads", [True, False])
async def test_a_picture_goes_to_the_downloads_or_else_home(
    downloads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DOWNLOAD_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    folder = tmp_path / "Downloads" if downloads else tmp_path
    folder.mkdir(exist_ok=True)
    async with dashboard() as screen:
        await taken(screen)
        (picture,) = folder.glob("*.svg")
        assert "SmolLM2" in picture.read_text(encoding="utf-8")
        assert picture.name in screen.toasts[0]


async def test_a_picture_that_cannot_be_saved_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    async with dashboard() as screen:
        await taken(screen)
        (said,) = screen.toasts
        assert os.strerror(2) in said
        assert str(tmp_path / "gone") in said
