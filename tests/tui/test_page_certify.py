"""The page of certificates: every action by key, mouse and palette, at every size."""

import pytest
from textual.command import CommandList
from textual.widgets import Input

from meshllm_core.errors import CutRefused, NodeError, NodeNotRunning
from meshllm_tui.cleaning import cells
from meshllm_tui.pages.certify import CertifyPage
from meshllm_tui.screens.ask import AskScreen
from meshllm_tui.screens.measure import MeasureScreen
from meshllm_tui.themes import THEMES
from meshllm_tui.widgets.certify_panes import EvidencePane
from tests.tui.certify_samples import DONE, GOING, STARTED, certificates, measuring, row
from tests.tui.conftest import Screen, dashboard
from tests.tui.samples import START, ScriptedClient, serving
from tests.tui.test_themes import faint

SIZES = [(60, 20), (80, 24), (120, 40), (300, 80)]


def client(**changes: object) -> ScriptedClient:
    made = ScriptedClient(state=serving())
    made.replies["certificates"] = certificates(**changes)  # type: ignore[arg-type]
    return made


async def opened(screen: Screen) -> CertifyPage:
    """The page, by its digit."""
    await screen.press("5")
    await screen.until(lambda: isinstance(screen.app.page, CertifyPage) and screen.app.page.is_mounted)
    page = screen.app.page
    assert isinstance(page, CertifyPage)
    await screen.until(lambda: page.records.answer is not None)
    await screen.pilot.pause()
    return page


async def write(screen: Screen, text: str) -> None:
    await screen.pilot.press(*({" ": "space", ",": "comma"}.get(letter, letter) for letter in text))
    await screen.pilot.pause()


async def by_palette(screen: Screen, words: str) -> None:
    """Run the action that these words find."""
    await screen.press("ctrl+p")
    await write(screen, words)
    palette = screen.app.screen
    await screen.until(lambda: palette.query_one(CommandList).option_count == 1)
    await screen.press("down", "enter")
    await screen.pilot.pause()


async def test_records_and_evidence() -> None:
    async with dashboard(client(left_out=3)) as screen:
        await opened(screen)
        assert "Measured, signed and kept here  2, 3 older left out" in screen.text
        assert "f16 ● exact" in screen.text
        assert "34,166.7 × the floor" in screen.text
        await screen.press("j", "j")
        assert "apertus" in screen.text
        assert "A review is weaker than a measurement here" in screen.text


@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_and_every_pane_is_reached(size: tuple[int, int]) -> None:
    made = client()
    made.state = measuring()
    async with dashboard(made, size=size) as screen:
        page = await opened(screen)
        for name in ("records", "evidence", "measurement"):
            assert page.active == name
            assert page.query_one(f"#{name}").display
            assert page.query_one(f"#{name}").region.height >= 3
            for text in screen.text.splitlines():
                assert cells(text) <= size[0]
            await screen.press("tab")
        assert page.active == "records"
        assert "640 of 2,240 positions" in screen.text


async def test_searching() -> None:
    async with dashboard(client(), size=(80, 24)) as screen:
        page = await opened(screen)
        await screen.press("slash")
        await write(screen, "gemma3n")
        assert "gemma3n" in screen.text
        assert "deepseek" not in screen.text
        assert "Nothing found." in screen.text, "no measurement has that name"
        await screen.press("enter")
        assert page.records.found.has_focus
        chosen = page.records.chosen
        assert chosen is not None and "gemma-3n" in chosen.key
        assert "a look-alike name means nothing" in page.query_one(EvidencePane).text
        assert "✗ rejected" in screen.text, "the neighbour's verdict is in view"
        await screen.press("slash", "escape")
        assert page.records.search == ""
        assert page.records.found.option_count > 90
        await screen.press("slash", "q")
        assert page.records.search == "q", "letters are written, not obeyed"


async def test_opposites_by_key_palette_and_mouse() -> None:
    async with dashboard(client(), size=(120, 40)) as screen:
        page = await opened(screen)
        await screen.press("o")
        assert "Look-alikes with opposite verdicts" in screen.text
        assert "Measured, signed" not in screen.text
        families = screen.text
        for name in ("deepseek2", "gemma3n"):
            assert name in families
        assert "llama " not in families
        await by_palette(screen, "opposite verdicts")
        assert not page.records.only_opposites
        line = screen.text.splitlines()[-1]
        await screen.pilot.click("#keys", offset=(line.index("o Opposites"), 0))
        await screen.pilot.pause()
        assert page.records.only_opposites


async def test_enter_and_click_open_the_evidence_where_it_is_narrow() -> None:
    async with dashboard(client(), size=(60, 20)) as screen:
        page = await opened(screen)
        assert not page.query_one("#evidence").display
        await screen.press("enter")
        assert page.active == "evidence"
        assert "Noise floor" in screen.text
        await screen.press("shift+tab")
        assert page.active == "records"
        await screen.pilot.click("#records-list", offset=(5, 4))
        await screen.pilot.pause()
        assert page.active == "evidence"
        assert "Qwen3-4B" in screen.text


async def test_copying_by_key_and_palette() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        await screen.press("y")
        assert "mean KL    4.1e-02 nats, 34,166.7 × the floor" in screen.copied
        screen.app.copy_to_clipboard("")
        await by_palette(screen, "record with its evidence")
        assert "SmolLM2" in screen.copied


async def test_measuring_from_a_record() -> None:
    made = client()
    made.effects["certify"] = (STARTED, GOING)
    async with dashboard(made) as screen:
        await opened(screen)
        await screen.press("m")
        assert isinstance(screen.app.screen, MeasureScreen)
        boxes = [box.value for box in screen.app.screen.query(Input)]
        assert boxes == ["SmolLM2-135M-Instruct.Q4_1.gguf", "15", ""]
        await screen.press("enter")
        await screen.until(lambda: bool(made.acted))
        wanted = {"model": "SmolLM2-135M-Instruct.Q4_1.gguf", "cuts": [15], "codecs": None}
        assert made.acted == [("certify", wanted)]
        await screen.until(lambda: isinstance(screen.app.screen, CertifyPage))
        await screen.until(lambda: "640 of 2,240 positions" in screen.text)
        assert "x Cancel" in screen.text


async def test_wrong_input_and_refusals_stay_in_the_dialog() -> None:
    made = client(rows=())
    made.refusal = CutRefused("SmolLM2 has 30 layers.", hint="Cut between 1 and 29.")
    async with dashboard(made, size=(80, 24)) as screen:
        await opened(screen)
        assert "Nothing yet: m measures a model." in screen.text
        await by_palette(screen, "codecs of a model on this")
        dialog = screen.app.screen
        assert isinstance(dialog, MeasureScreen)
        cuts = dialog.query_one("#measure-cuts", Input)
        cuts.value = "20, 10"
        await screen.press("enter")
        assert "Cuts rise" in screen.text
        assert made.acted == []
        cuts.value = "30"
        await screen.pilot.pause()
        await screen.pilot.click("#measure-go")
        await screen.until(lambda: "Cut between 1 and 29." in screen.text)
        await screen.pilot.click("#measure-known", offset=(4, 0))
        await screen.pilot.pause()
        assert dialog.query_one("#measure-model", Input).value == "default"
        await screen.press("escape")
        assert isinstance(screen.app.screen, CertifyPage)


async def test_cancelling_asks_first() -> None:
    made = client()
    made.state = measuring()
    async with dashboard(made) as screen:
        await opened(screen)
        await screen.press("x")
        assert isinstance(screen.app.screen, AskScreen)
        await screen.press("enter")
        assert made.acted == [], "the safe answer is the first"
        await by_palette(screen, "measurement that runs")
        await screen.press("right", "enter")
        await screen.until(lambda: made.acted == [("cancel_certify", {})])


async def test_nothing_runs_nothing_to_cancel() -> None:
    async with dashboard(client()) as screen:
        await opened(screen)
        assert "x Cancel" not in screen.text
        await screen.press("x")
        assert isinstance(screen.app.screen, CertifyPage)


async def test_the_end_of_a_measurement_is_read_at_once() -> None:
    made = client(rows=())
    made.state = measuring()
    async with dashboard(made) as screen:
        await opened(screen)
        asked = len(made.questions)
        made.replies["certificates"] = certificates(rows=(row("q8", "exact", 1e-6, name="fresh"),))
        made.happen(DONE)
        await screen.until(lambda: "fresh" in screen.text)
        assert len(made.questions) == asked + 1
        assert "measured and signed" in screen.text


async def test_loading_failed_and_asked_again() -> None:
    made = client()
    made.replies["certificates"] = NodeError("The records cannot be read.", hint="Look at the disk.")
    async with dashboard(made, size=(80, 24)) as screen:
        await opened(screen)
        assert "The records cannot be read." in screen.text
        assert "Press r to ask again." in screen.text
        made.replies["certificates"] = certificates()
        await screen.press("r")
        await screen.until(lambda: "deepseek" in screen.text or "apertus" in screen.text)
        made.replies["certificates"] = NodeError("The records cannot be read.", hint="Look at the disk.")
        await by_palette(screen, "read the records again")
        await screen.until(lambda: bool(screen.toasts))
        assert "apertus" in screen.text, "what is known stays"


async def test_a_node_that_is_lost_and_none_at_all() -> None:
    async with dashboard(client(), size=(80, 24)) as screen:
        await opened(screen)
        screen.client.state = None
        screen.client.queue.put_nowait(NodeNotRunning("No node answers.", hint="Start one."))
        await screen.until(lambda: "stale: no answer" in screen.text)
        assert "apertus" in screen.text
    silent = ScriptedClient(state=None)
    async with dashboard(silent, size=(80, 24)) as screen:
        silent.replies["certificates"] = NodeNotRunning("No node answers at this address.", hint="Start one.")
        await screen.press("5")
        await screen.until(lambda: "No node answers" in screen.text)


async def test_many_records_are_drawn_soon_and_only_once() -> None:
    rows = [
        row("q8", "exact", 1e-6, artifact=f"{n:064x}", name=f"model-{n}", at=START - n) for n in range(512)
    ]
    async with dashboard(client(rows=rows)) as screen:
        page = await opened(screen)
        drawn = page.records.found.options[1]
        page.show(page.session.view())
        assert page.records.found.options[1] is drawn, "nothing new, nothing drawn"
        await screen.press("slash")
        await write(screen, "model-500")
        assert "model-500" in screen.text
        assert page.records.found.option_count < 10


@pytest.mark.parametrize("theme", [theme.name for theme in THEMES])
async def test_every_word_stands_out(theme: str) -> None:
    made = client()
    made.state = measuring()
    async with dashboard(made, theme=theme) as screen:
        await opened(screen)
        assert faint(screen) == []
        await screen.press("slash", *"gemma")
        assert faint(screen) == []
        await screen.press("enter", "m")
        assert isinstance(screen.app.screen, MeasureScreen)
        assert faint(screen, screen.app.screen.query_one("#measure").region) == []
