"""Planner and split page over two real nodes: what is planned is launched, and its stages become ready."""

from functools import partial
from pathlib import Path

from meshllm_tui.app import MeshApp
from meshllm_tui.connect import open_client
from tests.node.test_split import NAME, mesh
from tests.tui.conftest import Screen
from tests.tui.samples import ScriptedClient


async def test_a_plan_is_launched_and_its_stages_become_ready(tmp_path: Path) -> None:
    with mesh(tmp_path, "Anna", "Bert") as (anna, bert):
        token = anna.home / "data" / "management-token"
        app = MeshApp(partial(open_client, anna.console, anna.api, token))
        async with app.run_test(size=(120, 40)) as pilot:
            screen = Screen(app, ScriptedClient(), pilot)
            await screen.until(lambda: app.session.snapshot is not None, 20)
            await screen.press("4")
            await screen.until(lambda: "over 2 machines" in screen.text, 30)
            page = app.page
            page.go("wishes")
            for _ in range(40):
                if NAME in screen.text and "L splits it" in screen.text:
                    break
                await screen.press("right")
                await screen.until(lambda: "asking" not in screen.text, 30)
            assert "● L splits it" in screen.text
            assert "┣━" in screen.text
            await screen.press("L")
            await screen.until(lambda: "fits on no machine alone" in screen.text)
            await screen.press("enter")
            await screen.until(lambda: app.page.NAME == "split", 20)
            await screen.until(
                lambda: "2 of 2 ready" in screen.text and screen.text.count("● ready") >= 5, 90
            )
            for words in ("Bert", "Anna", "Per token", "f32"):
                assert words in screen.text
            hosted = bert.snapshot()["hosted_stages"]
            assert [stage["coordinator"] for stage in hosted] == ["Anna"]
