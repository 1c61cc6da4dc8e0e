"""The catalogue and the hub on the page of models: each action by key, mouse and palette."""

import asyncio
from typing import Any, TypeVar

import pytest
from textual.widgets import OptionList

from meshllm_core.api.schema_models import HubRepo, HubSearch
from meshllm_core.errors import HubUnreachable
from meshllm_tui.widgets.catalog_pane import SearchLine
from tests.tui.conftest import dashboard
from tests.tui.model_page import WAYS, asked, opened, perform
from tests.tui.model_samples import client, downloading, found, replies
from tests.tui.samples import ScriptedClient

T = TypeVar("T")


@WAYS
async def test_a_model_that_fits_is_fetched_or_loaded(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        await perform(screen, way, "enter", "fetch, load or split")
        await screen.until(lambda: "It is a download of 1.7 GiB." in screen.text)
        await screen.press("right", "enter")
        await screen.until(lambda: screen.client.acted == [("load", {"model": "qwen3-1.7b"})])


async def test_a_click_on_the_chosen_row_asks_too() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        await screen.pilot.click("#offers", offset=(5, 2))
        await screen.pilot.pause()
        assert "Download and load" not in screen.text
        await screen.pilot.click("#offers", offset=(5, 2))
        await screen.until(lambda: "Download and load" in screen.text)


@WAYS
async def test_a_model_is_downloaded_without_loading(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        await perform(screen, way, "d", "download the chosen model")
        await screen.until(lambda: screen.client.acted == [("download", {"model": "qwen3-1.7b"})])
        await screen.until(lambda: any("Downloading qwen3-1.7b." in toast for toast in screen.toasts))


async def test_what_does_not_fit_is_asked_about_first() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog", "end", "d")
        await screen.until(lambda: "have 33.0 GiB free together" in " ".join(screen.text.split()))
        assert screen.client.acted == []
        await screen.press("right", "enter")
        await screen.until(
            lambda: screen.client.acted == [("download", {"model": "llama-3.3-70b", "any_size": True})]
        )


async def test_a_model_that_fits_split_is_planned_or_loaded_split() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog", *["down"] * 4, "enter")
        await screen.until(lambda: "Plan the split" in screen.text)
        await screen.press("right", "enter")
        await screen.until(lambda: screen.client.acted == [("load", {"model": "qwen3-32b", "split": True})])
        await screen.press("enter", "enter")
        await screen.until(lambda: screen.app.page.NAME == "plan")


@WAYS
async def test_the_search_follows_each_letter_and_enter_asks_the_hub(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        await perform(screen, way, "slash", "search the catalogue")
        assert screen.app.page.query_one(SearchLine).has_focus
        await screen.press(*"gemma")
        rows = screen.app.page.query_one("#offers", OptionList)
        assert rows.option_count == 1
        assert not asked(screen.client, "hub/search")
        await screen.press("enter")
        await screen.until(lambda: "bartowski/Qwen3-8B-GGUF" in screen.text)
        assert asked(screen.client, "hub/search") == [{"query": "gemma"}]
        assert rows.option_count == 4
        await screen.press("x")
        assert rows.option_count == 1 or "bartowski" not in screen.text


async def test_escape_goes_back_to_the_whole_catalogue() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen, "catalog", "slash", *"8b")
        rows = page.query_one("#offers", OptionList)
        assert rows.option_count == 1
        await screen.press("escape")
        assert rows.has_focus and rows.option_count == 1
        await screen.press("escape")
        assert rows.option_count == 6


async def test_letters_in_the_search_are_no_commands() -> None:
    async with dashboard(client()) as screen:
        page = await opened(screen, "catalog", "slash", *"dqly2?u")
        assert page.query_one(SearchLine).value == "dqly2?u"
        assert screen.client.acted == [] and screen.app.page is page
        await screen.press("escape", "escape", "slash", "down")
        assert page.query_one("#offers", OptionList).has_focus


async def test_a_repository_asks_which_of_its_models() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog", "slash", *"zzz", "enter")
        await screen.until(lambda: "bartowski/Qwen3-8B-GGUF" in screen.text)
        await screen.press("down", "enter")
        await screen.until(lambda: "Which one of bartowski/Qwen3-8B-GGUF?" in screen.text)
        assert asked(screen.client, "hub/models") == [{"repo": "bartowski/Qwen3-8B-GGUF"}]
        await screen.press("down", "enter")
        await screen.until(lambda: "It is a download of 6.7 GiB." in screen.text)
        await screen.press("enter")
        ref = "bartowski/Qwen3-8B-GGUF:Q6_K"
        await screen.until(lambda: screen.client.acted == [("download", {"model": ref})])


async def test_the_best_of_a_repository_is_downloaded_by_one_key() -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog", "slash", *"zzz", "enter")
        await screen.until(lambda: "bartowski/Qwen3-8B-GGUF" in screen.text)
        await screen.press("down", "d")
        ref = "bartowski/Qwen3-8B-GGUF:Q6_K"
        await screen.until(lambda: screen.client.acted == [("download", {"model": ref})])


@WAYS
async def test_what_loads_a_model_of_the_catalogue_is_copied(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        await perform(screen, way, "y", "catalogue copy")
        await screen.until(lambda: screen.copied == "qwen3-1.7b")


@pytest.mark.parametrize("way", ["key", "palette"])
async def test_the_marks_are_asked_for_again(way: str) -> None:
    async with dashboard(client()) as screen:
        await opened(screen, "catalog")
        before = len(asked(screen.client, "catalog"))
        await perform(screen, way, "R", "ask for the marks again")
        await screen.until(lambda: len(asked(screen.client, "catalog")) == before + 1)


async def test_a_hub_that_cannot_be_reached_is_told_and_the_catalogue_stays() -> None:
    node = client(hub_search=HubUnreachable("The hub cannot be reached.", hint="Check the network."))
    async with dashboard(node) as screen:
        await opened(screen, "catalog", "slash", *"qwen", "enter")
        await screen.until(lambda: "✗ The hub cannot be reached." in screen.text)
        assert "Check the network." in screen.text and "qwen3-32b" in screen.text


async def test_a_hub_that_finds_nothing_is_told() -> None:
    async with dashboard(client(hub_search=HubSearch(hub="x", models=()))) as screen:
        await opened(screen, "catalog", "slash", *"zzz", "enter")
        await screen.until(lambda: "The hub has no GGUF model called zzz." in screen.text)


class SlowFirst(ScriptedClient):
    """A node whose first search is answered last."""

    late: asyncio.Event

    async def ask(self, name: str, kind: type[T], /, **arguments: Any) -> T:
        if arguments.get("query") == "first":
            await self.late.wait()
            self.replies["hub/search"] = HubSearch(hub="x", models=(found("late/One-GGUF"),))
        return await super().ask(name, kind, **arguments)


async def test_an_earlier_search_does_not_take_the_place_of_a_later_one() -> None:
    node = SlowFirst(state=downloading(), replies=replies())
    node.late = asyncio.Event()
    async with dashboard(node) as screen:
        page = await opened(screen, "catalog")
        page.search("first")
        await screen.pilot.pause()
        page.search("second")
        await screen.until(lambda: "bartowski/Qwen3-8B-GGUF" in screen.text)
        node.late.set()
        await screen.until(lambda: ("hub/search", {"query": "first"}) in node.questions)
        await screen.pilot.pause(0.05)
        assert "late/One" not in screen.text


async def test_no_repository_without_a_model_is_chosen_from() -> None:
    node = client(hub_models=HubRepo(repo="a/b", commit="0" * 40, models=()))
    async with dashboard(node) as screen:
        await opened(screen, "catalog", "slash", *"zzz", "enter")
        await screen.until(lambda: "bartowski" in screen.text)
        await screen.press("down", "enter")
        await screen.until(lambda: any("holds no GGUF model" in toast for toast in screen.toasts))
