"""The page of models over a real node and a hub on loopback: search, download, load, refuse, delete."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from meshllm_core.models.embedded import embedded_model
from meshllm_tui.app import MeshApp
from meshllm_tui.connect import open_client
from meshllm_tui.pages.models import ModelsPage
from tests.support.hub import serve_hub
from tests.support.nodes import running_node
from tests.tui.conftest import Screen
from tests.tui.samples import ScriptedClient

pytestmark = pytest.mark.model

REPO = "owner/tiny-GGUF"
PATIENCE = 60.0


async def test_a_model_of_the_hub_comes_runs_and_goes(tmp_path: Path) -> None:
    with serve_hub() as hub:
        hub.add(REPO, {"tiny-Q4_1.gguf": embedded_model().read_bytes()}, parameters=135_000_000)
        with running_node(tmp_path, environment={"MESHLLM_HUB_ENDPOINT": hub.address}) as node:
            token = node.home / "data" / "management-token"
            app = MeshApp(partial(open_client, node.console, node.api, token))
            async with app.run_test(size=(120, 40)) as pilot:
                screen = Screen(app, ScriptedClient(), pilot)
                await screen.until(lambda: app.session.snapshot is not None, PATIENCE)
                await screen.press("2")
                page = app.page
                assert isinstance(page, ModelsPage)
                await screen.until(lambda: "qwen3-0.6b" in screen.text, PATIENCE)
                await screen.press("slash", *"tiny", "enter")
                await screen.until(lambda: REPO in screen.text, PATIENCE)
                await screen.press("down", "enter")
                await screen.until(lambda: f"Which one of {REPO}?" in screen.text, PATIENCE)
                await screen.press("enter")
                await screen.until(lambda: "It is a download of" in screen.text, PATIENCE)
                await screen.press("enter")
                await screen.until(lambda: "● done" in screen.text, PATIENCE)
                page.go("library")
                await screen.until(lambda: page._library.answer is not None and bool(_kept(page)), PATIENCE)
                await screen.press("end", "enter")
                await screen.until(lambda: _kept(page) == [True], PATIENCE)
                await screen.press("x")
                await screen.until(lambda: any("is loaded here" in toast for toast in screen.toasts))
                assert node.act("unload", model="tiny-Q4_1").status_code == 200
                await screen.until(lambda: _kept(page) == [False], PATIENCE)
                await screen.press("x")
                await screen.until(lambda: "It can be downloaded again." in screen.text, PATIENCE)
                await screen.press("right", "enter")
                await screen.until(lambda: _kept(page) == [], PATIENCE)
            await asyncio.sleep(0.2)  # the connections of the dashboard that ended are given back
            assert not list((node.home / "cache").rglob("tiny*.gguf"))


def _kept(page: ModelsPage) -> list[bool]:
    """Whether each model of the hub that is on the disk is loaded."""
    models = page._library.answer.models if page._library.answer is not None else ()
    return [model.loaded for model in models if model.id == "tiny-Q4_1"]
