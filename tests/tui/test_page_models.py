"""What runs, the disk and the downloads: each action by key, mouse and palette; states and sizes."""

import pytest
from textual.widgets import OptionList

from meshllm_core.api.schema_models import Catalog, HubSearch, Library
from meshllm_core.errors import StorageError
from meshllm_core.state import events as ev
from meshllm_core.state.mesh_events import PeerUpdated
from meshllm_tui.pages.models import ModelsPage
from meshllm_tui.themes import THEMES
from meshllm_tui.widgets.catalog_pane import CatalogPane
from tests.tui.conftest import dashboard
from tests.tui.mesh_samples import peer
from tests.tui.model_page import WAYS, asked, opened, perform
from tests.tui.model_samples import (
    HERE,
    UNKNOWN,
    catalog,
    changed,
    client,
    download,
    downloading,
    entry,
    found,
    kept,
    library,
)
from tests.tui.samples import BROKEN, SMALL, START, ScriptedClient, bare, serving
from tests.tui.test_split import spread
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (300, 80)]


# Running -------------------------------------------------------------------------------------------


@WAYS
async def test_a_model_that_runs_is_chatted_with(way: str) -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running")
        await perform(screen, way, "enter", "running models chat with the chosen")
        await screen.until(lambda: screen.app.page.NAME == "chat")


async def test_a_model_of_another_machine_is_chatted_with() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "running", "end", "enter")
        await screen.until(lambda: screen.app.page.NAME == "chat")


async def test_a_model_that_is_not_ready_says_so() -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running", "end", "enter")
        await screen.until(lambda: any("is not ready: failed" in toast for toast in screen.toasts))


@WAYS
async def test_a_model_is_unloaded_after_a_question(way: str) -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running")
        await perform(screen, way, "u", "unload the chosen model of this")
        await screen.until(lambda: "Unload SmolLM2-135M-Instruct?" in screen.text)
        await screen.press("right", "enter")
        await screen.until(lambda: screen.client.acted == [("unload", {"model": SMALL})])


@WAYS
async def test_a_failed_model_is_loaded_again(way: str) -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running", "end")
        await perform(screen, way, "r", "running models load the chosen model again")
        await screen.until(
            lambda: screen.client.acted == [("load", {"model": "unsloth/gemma-3-27b-GGUF:Q8_0"})]
        )


@WAYS
async def test_the_stages_of_a_split_model_are_shown(way: str) -> None:
    async with dashboard(client(spread(done=True))) as screen:
        await opened(screen, "running")
        await perform(screen, way, "s", "running models show how the chosen split")
        await screen.until(lambda: screen.app.page.NAME == "split")


@WAYS
async def test_a_model_s_name_is_copied(way: str) -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running")
        await perform(screen, way, "y", "running models copy")
        await screen.until(lambda: screen.copied == SMALL)


async def test_only_what_can_be_done_is_offered() -> None:
    async with dashboard(client(serving())) as screen:
        await opened(screen, "running")
        line = screen.text.splitlines()[-1]
        assert "Unload" in line and "Retry" not in line and "Stages" not in line
        await screen.press("end")
        assert "Retry" in screen.text.splitlines()[-1]
        assert BROKEN.split(":")[0] in screen.text
    async with dashboard(client()) as screen:
        await opened(screen, "running", "end")
        assert "Unload" not in screen.text.splitlines()[-1]


# The disk ------------------------------------------------------------------------------------------


@WAYS
async def test_a_model_of_the_disk_is_loaded(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library", "down")
        await perform(screen, way, "enter", "load the chosen model from the disk")
        ref = "unsloth/Qwen3-4B-Instruct-Q4_K_M-GGUF:Q4_K_M"
        await screen.until(lambda: screen.client.acted == [("load", {"model": ref})])


@WAYS
async def test_a_model_is_deleted_after_a_question(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library", "down")
        before = len(asked(screen.client, "library"))
        await perform(screen, way, "x", "delete the chosen model")
        await screen.until(lambda: "frees 2.4 GiB of the disk" in screen.text)
        assert screen.client.acted == []
        await screen.press("right", "enter")
        key = "unsloth/Qwen3-4B-Instruct-Q4_K_M/0011223344556677"
        await screen.until(lambda: screen.client.acted == [("delete_model", {"model": key})])
        await screen.until(lambda: len(asked(screen.client, "library")) > before)


async def test_what_is_loaded_is_not_deleted() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library", "x")
        await screen.until(lambda: any("part of meshllm" in toast for toast in screen.toasts))
        await screen.press("end", "x")
        await screen.until(lambda: any("in use by process 4242" in toast for toast in screen.toasts))
        assert screen.client.acted == []


async def test_a_refusal_to_delete_is_told() -> None:
    node = client()
    node.refusal = StorageError("It is in use by process 9.", hint="Unload it.")
    async with dashboard(node) as screen:
        await opened(screen, "library", "down", "delete", "right", "enter")
        await screen.until(lambda: any("in use by process 9" in toast for toast in screen.toasts))


@WAYS
async def test_a_partial_download_goes_on(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library", "down", "down")
        await perform(screen, way, "r", "go on with the chosen")
        ref = "unsloth/gemma-3-12b-it-Q4_K_M-GGUF:Q4_K_M"
        await screen.until(lambda: screen.client.acted == [("download", {"model": ref})])


@WAYS
async def test_what_loads_a_model_of_the_disk_is_copied(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library")
        await perform(screen, way, "y", "models on the disk copy")
        await screen.until(lambda: screen.copied == "default")


@pytest.mark.parametrize("way", ["key", "palette"])
async def test_the_disk_is_read_again(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library")
        before = len(asked(screen.client, "library"))
        await perform(screen, way, "R", "read the disk again")
        await screen.until(lambda: len(asked(screen.client, "library")) == before + 1)


async def test_a_click_chooses_and_another_one_loads() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "library")
        await screen.pilot.click("#library", offset=(10, 2))
        await screen.pilot.pause()
        assert screen.app.page.query_one("#library", OptionList).highlighted == 1
        assert screen.client.acted == []
        await screen.pilot.click("#library", offset=(10, 2))
        await screen.until(lambda: [name for name, _ in screen.client.acted] == ["load"])


# Downloads -----------------------------------------------------------------------------------------


@WAYS
async def test_a_download_is_paused_and_goes_on(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "downloads")
        key = "enter" if way == "mouse" else "w"
        await perform(screen, way, key, "pause the chosen download")
        await screen.until(lambda: screen.client.acted == [("pause_download", {"download": "a1"})])
        await screen.press("down", "down", "enter", "down", "w")
        await screen.until(
            lambda: (
                screen.client.acted[1:]
                == [("resume_download", {"download": "c3"}), ("resume_download", {"download": "d4"})]
            )
        )


@WAYS
async def test_a_download_is_cancelled_after_a_question(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "downloads")
        await perform(screen, way, "x", "end the chosen download")
        await screen.until(lambda: "2.0 GiB that arrived are removed" in screen.text)
        await screen.press("right", "enter")
        await screen.until(lambda: screen.client.acted == [("cancel_download", {"download": "a1"})])


async def test_where_nothing_is_lost_nothing_is_asked() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "downloads", "down", "x")
        await screen.until(lambda: screen.client.acted == [("cancel_download", {"download": "b2"})])
        screen.client.happen(changed(download(state="done")))
        await screen.until(lambda: "● done" in screen.text)
        await screen.press("home", "w", "x")
        await screen.until(lambda: screen.client.acted[1:] == [("cancel_download", {"download": "a1"})])


@WAYS
async def test_what_loads_a_download_is_copied(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "downloads")
        await perform(screen, way, "y", "downloads copy")
        await screen.until(lambda: screen.copied == "unsloth/Qwen3-8B-GGUF:Q4_K_M")


async def test_progress_is_drawn_as_it_comes_and_the_end_reads_the_disk_again() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "downloads")
        before = len(asked(screen.client, "library"))
        screen.client.happen(changed(download(bytes_done=4 << 30)))
        await screen.until(lambda: "80 %" in screen.text)
        assert len(asked(screen.client, "library")) == before
        screen.client.happen(changed(download(state="done")))
        await screen.until(lambda: len(asked(screen.client, "library")) == before + 1)
        screen.client.happen(ev.DownloadRemoved(at=START, id="a1", reason=""))
        await screen.until(lambda: "Qwen3-8B-Q4_K_M" not in screen.text)


# States and sizes ----------------------------------------------------------------------------------


async def test_panes_say_what_is_missing() -> None:
    node = client(bare(), library=Library(folder="", disk_free=0, bytes_here=0, models=()))
    async with dashboard(node) as screen:
        await opened(screen)
        for words in ("No model runs.", "Nothing is being downloaded.", "No model is on this disk."):
            assert words in screen.text


async def test_a_failed_question_is_told_and_asked_again() -> None:
    node = client(library=StorageError("The disk cannot be read.", hint="Check it."))
    node.replies["catalog"] = StorageError("The catalogue is away.", hint="Ask later.")
    async with dashboard(node) as screen:
        await opened(screen, "library")
        for words in ("The disk cannot be read.", "Check it.", "R asks again.", "The catalogue is away."):
            assert words in screen.text
        node.replies["library"] = library()
        node.replies["catalog"] = catalog()
        await screen.press("R")
        await screen.until(lambda: "Phi-4-mini-Q6_K" in screen.text and "qwen3-32b" in screen.text)
        node.replies["library"] = StorageError("The disk is gone.", hint="")
        await screen.press("R")
        await screen.until(lambda: "! stale: The disk is gone." in screen.text)
        assert "Phi-4-mini-Q6_K" in screen.text


async def test_losing_the_node_is_told_in_each_pane() -> None:
    async with dashboard(client(), size=(200, 50)) as screen:
        await opened(screen)
        screen.client.state = None
        screen.client.queue.put_nowait(None)
        await screen.until(lambda: screen.text.count("! stale: no answer for") >= 5)
        assert "Phi-4-mini-Q6_K" in screen.text


async def test_without_a_node_the_page_says_so() -> None:
    async with dashboard(ScriptedClient(state=None), settled=False) as screen:
        await screen.press("2")
        await screen.until(lambda: screen.text.count("looking for the node…") >= 3)
        assert screen.client.questions == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pane", ModelsPage.PANES)
async def test_every_pane_is_reached_at_every_size(size: tuple[int, int], pane: str) -> None:
    async with dashboard(client(), size=size) as screen:
        page = await opened(screen, pane)
        focused = page.focused
        assert focused is not None
        assert pane in {widget.id for widget in focused.ancestors_with_self}
        widget = page.query_one(f"#{pane}")
        assert widget.display and widget.region.width > 30 and widget.region.height > 3
        lines = screen.text.splitlines()
        assert len(lines) == size[1] and "Ctrl+Q" in lines[-1]


async def test_jump_mode_and_tab_reach_the_panes() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen, "running")
        seen = []
        for _ in page.PANES:
            seen.append(page.active)
            await screen.press("tab")
        assert tuple(seen) == page.PANES
        await screen.press("g")
        await screen.until(lambda: len(screen.app.screen_stack) == 2)


async def test_names_from_outside_cannot_change_the_screen() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[bold red]name[/]\u202e"
    node = client(
        downloading(),
        library=library(kept(evil, key="a", ref=evil)),
        catalog=Catalog(memory_free=1, machines=1, models=(entry("x", 1.0, HERE, id=evil, about=evil),)),
        hub_search=HubSearch(
            hub=evil, models=(found("a/b", architecture=evil, quants=(evil,), fit=UNKNOWN),)
        ),
    )
    node.happen(changed(download("e5", ref=evil, model=evil, state="failed", message=evil, hint=evil)))
    async with dashboard(node) as screen:
        page = await opened(screen, "catalog")
        page.search("b")
        await screen.until(lambda: "a/b" in screen.text)
        assert "[bold red]name[/]" in screen.text
        assert not set("\x1b\x07\u202e") & set(screen.text)
        await screen.press("enter")
        await screen.until(lambda: "It is a download" in screen.text)
        assert not set("\x1b\x07\u202e") & set(screen.text)


async def test_the_page_is_asked_for_anew_when_it_is_opened_again() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        before = len(asked(screen.client, "library"))
        await screen.press("1", "2")
        await screen.until(lambda: len(asked(screen.client, "library")) == before + 1)
        assert screen.app.page.query_one(CatalogPane).offer is not None


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_of_the_page_stands_out(theme: str) -> None:
    async with dashboard(client(), theme=theme) as screen:
        for pane in ModelsPage.PANES:
            await opened(screen, pane)
            assert faint(screen) == []
        await opened(screen, "catalog", "slash", *"zzz", "enter")
        await screen.until(lambda: "bartowski" in screen.text)
        assert faint(screen) == []


async def test_members_that_change_often_are_not_asked_about_each_time() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        before = len(asked(screen.client, "catalog"))
        for step in range(40):
            screen.client.happen(PeerUpdated(at=START, peer=peer("attic", memory_lent=step << 31)))
            await screen.pilot.pause(0.01)
        await screen.until(lambda: len(asked(screen.client, "catalog")) > before)
        assert len(asked(screen.client, "catalog")) - before <= 3
