"""How the chat's page looks, at the sizes and in the colours that are promised.

After a wanted change: `pytest tests/tui/test_page_chat_pictures.py --snapshot-update`, and look at them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from meshllm_tui.chats.store import ChatStore
from meshllm_tui.conversation import Answer, Conversation, Turn
from meshllm_tui.pages.chat import ChatPage
from tests.tui.conftest import NOW, make_app
from tests.tui.mesh_samples import meshed
from tests.tui.samples import SMALL, ScriptedClient

Compare = Callable[..., bool]
TEXT = """The sky is blue because of **Rayleigh scattering**: short waves are scattered more.

1. Sunlight has all colours.
2. Air scatters blue about *four times* as much as red, see [the table](https://example.org/t).

```python
def scattered(wave_length: float) -> float:
    return 1 / wave_length**4  # relative
```

| colour | nm | scattered |
|---|---|---|
| blue | 450 | 4.4 |
| red | 650 | 1.0 |

> At sunset the way through the air is long.
"""
SPLIT = "Qwen3-4B-Instruct:Q4_K_M, 2 stages: workshop layers 0–19 → attic layers 20–35"


def answer(text: str, how: str = f"{SMALL}, answered by workshop on CPU", **more: Any) -> Answer:
    figures: dict[str, Any] = {"completion_tokens": 143, "first_at": 0.084, "last_at": 2.4, "state": "done"}
    return Answer(model=SMALL, text=text, how=how, **(figures | more))


def conversations() -> list[tuple[Conversation, float]]:
    """Each with its age in seconds, the oldest first."""
    asked = Turn("Why is the sky blue?\nShow how to compute it.", answer(TEXT))
    then = Turn(
        "And at sunset?",
        answer(
            "Then mostly red is",
            SPLIT,
            state="failed",
            error="attic left the chain.",
            hint="The layers are being placed anew.",
            reasoning="The user wants to know about sunset.",
        ),
    )
    return [
        (Conversation([Turn("Haiku about disks", answer("x"))], title="Haiku about disks", model=SMALL), 9e5),
        (
            Conversation(
                [Turn("x", answer("x"))],
                title="Translate the manual of the heating into Finnish",
                model="gemma-3-12b:Q4_K_M",
            ),
            7300.0,
        ),
        (
            Conversation(
                [asked, then],
                title="Why is the sky blue?",
                system="You are a physicist who explains things briefly.",
                model=SMALL,
            ),
            70.0,
        ),
    ]


async def written(file: Path) -> None:
    """A history on the disk."""
    for conversation, age in conversations():
        store = ChatStore(file, partial(float, NOW - age))
        await store.open()
        await store.save(conversation)
        await store.close()


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until the node's state and the history are drawn."""
    await pilot.press("f3")
    end = time.monotonic() + 10
    while time.monotonic() < end:
        page = pilot.app.screen_stack[0]
        if isinstance(page, ChatPage) and page.chats._rows is not None and page.session.snapshot is not None:
            break
        await pilot.pause(0.02)
    await pilot.pause(0.2)


async def to_list(pilot: Pilot[Any]) -> None:
    """The list has the keyboard."""
    await settle(pilot)
    await pilot.press("f5", "down")
    await pilot.pause()


async def to_prompt_dialog(pilot: Pilot[Any]) -> None:
    """The system prompt is being written."""
    await settle(pilot)
    await pilot.press("f9")
    await pilot.pause()


def picture(
    compare: Compare,
    folder: Path,
    size: tuple[int, int],
    before: Callable[[Pilot[Any]], Awaitable[None]] = settle,
    theme: str = "meshllm-dark",
) -> bool:
    file = folder / "chats.sqlite"
    asyncio.run(written(file))
    app = make_app(ScriptedClient(state=meshed()), theme=theme, chats_file=file)
    return compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_page(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    assert picture(snap_compare, tmp_path, size)


def test_list_when_narrow(snap_compare: Compare, tmp_path: Path) -> None:
    assert picture(snap_compare, tmp_path, (60, 20), to_list)


def test_system_prompt(snap_compare: Compare, tmp_path: Path) -> None:
    assert picture(snap_compare, tmp_path, (80, 24), to_prompt_dialog)


def test_light(snap_compare: Compare, tmp_path: Path) -> None:
    assert picture(snap_compare, tmp_path, (120, 40), to_list, theme="meshllm-light")


def test_no_colour(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert picture(snap_compare, tmp_path, (120, 40), to_list)
