"""What each picture shows: a sample node, a size, a theme, and the keys that lead there."""

import re
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from meshllm_core.api.client import ChatDelta
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.app import MeshApp
from meshllm_tui.preferences import Preferences
from meshllm_tui.session import NodeClient
from tests.tui.certify_samples import GOING, STARTED, certificates, config
from tests.tui.mesh_samples import DAY, PEERS, TOKEN, invite, invites, meshed, peer
from tests.tui.model_samples import downloading
from tests.tui.model_samples import replies as model_replies
from tests.tui.plan_samples import replies as plan_replies
from tests.tui.request_samples import busy
from tests.tui.samples import START, ScriptedClient, bare, fold, ready
from tests.tui.test_page_activity import Files
from tests.tui.test_page_chat_pictures import written
from tests.tui.test_split import spread
from tests.tui.test_welcome import fresh

NOW = START + 200.0
INVITE = "3f9a12bc04"
QUESTION = "Give me three reasons to run a model at home."
LOGS = {
    "node": "\n".join(
        (
            "2027-01-15 08:00:00 INFO meshllm_core.node.runtime: meshllm 0.1.0, process 4711",
            "2027-01-15 08:00:00 INFO meshllm_core.node.servers: OpenAI endpoint http://127.0.0.1:9337/v1",
            "2027-01-15 08:00:02 INFO meshllm_core.node.runtime: SmolLM2-135M-Instruct is ready",
            "2027-01-15 08:00:15 ERROR meshllm_core.node.host: gemma-3-27b:Q8_0 needs 31.2 GiB",
            "2027-01-15 08:01:52 INFO meshllm_core.serve.calls: attic answers with Qwen3-4B-Instruct",
            "",
        )
    ),
    "engine-SmolLM2": "llama_model_loader: 272 tensors\nload_tensors: CPU model buffer size = 98.87 MiB\n",
}
ANSWER = """Three reasons:

1. **Privacy.** What you write stays on your own machines.
2. **Cost.** After the hardware there is no bill per token.
3. **Control.** You choose the model, and it stays as it is.

```sh
curl -s localhost:9337/v1/models
```
"""
LARGE, MEDIUM = (120, 40), (80, 24)


@dataclass(frozen=True)
class Scene:
    """One picture."""

    name: str
    state: Callable[[], NodeSnapshot]
    keys: tuple[str, ...]
    size: tuple[int, int] = LARGE
    theme: str = "meshllm-dark"
    question: str = ""
    chats: bool = False
    """Whether there is a history of conversations."""
    first_run: bool = False


def home() -> NodeSnapshot:
    """A mesh whose members all are well, but for one that is off."""
    garage = peer("garage", models=(), rtt_ms=3.4, memory_total=16 << 30, memory_free=11 << 30)
    attic, cellar, _, laptop, phone = PEERS
    return meshed(attic, cellar, garage, laptop, phone)


def inviting() -> NodeSnapshot:
    """An invite that some have used, and one that is used up."""
    rows = (
        invite("77ab01cd20", uses=3, used=1, used_by=("attic",)),
        invite("12ce55aa90", uses=1, used=1, state="used_up", used_by=("cellar",)),
    )
    return fold(invites(*rows), snapshot=home())


def calm() -> NodeSnapshot:
    """Certificates beside a measurement that runs."""
    return fold(STARTED, GOING, snapshot=home())


SCENES = (
    Scene("mesh", home, ("g", "a", "j", "down")),
    Scene("mesh-light", home, ("g", "a", "j"), theme="meshllm-light"),
    Scene("mesh-small", home, ("g", "a", "j"), MEDIUM),
    Scene("member", home, ("g", "a", "j", "enter")),
    Scene("models", downloading, ("2", "tab", "tab", "j")),
    Scene("split", lambda: spread(done=True), ("3",)),
    Scene("split-coming", spread, ("3",)),
    Scene("plan", lambda: spread(done=True), ("4",)),
    Scene("launch", home, ("4", "L"), MEDIUM),
    Scene("certify", calm, ("5",)),
    Scene("invite", inviting, ("6", "m")),
    Scene("invite-small", inviting, ("v", "m"), MEDIUM),
    Scene("chat", home, ("7",), question=QUESTION, chats=True),
    Scene("chat-light", home, ("7",), MEDIUM, theme="meshllm-light", question=QUESTION, chats=True),
    Scene("requests", busy, ("8", "j", "j", "j")),
    Scene("activity", busy, ("9",)),
    Scene("settings", home, ("0", "j", "j")),
    Scene("public", home, ("P",), MEDIUM),
    Scene("jump", home, ("g",)),
    Scene("help", home, ("question_mark",)),
    Scene("palette", home, ("ctrl+p",), MEDIUM),
    Scene("welcome", lambda: fold(*ready(), snapshot=bare()), (), MEDIUM, first_run=True),
)


def _client(scene: Scene) -> ScriptedClient:
    words = re.findall(r"\S+\s*", ANSWER)
    client = ScriptedClient(
        state=scene.state(),
        answers={
            "invite": {"token": TOKEN, "id": INVITE, "role": "host", "uses": 1, "expires_at": START + DAY}
        },
        pace=1 / 61,
        answer=[
            ChatDelta(reasoning="They want a short list. Privacy, cost, control."),
            *(ChatDelta(text=word) for word in words),
            ChatDelta(finish_reason="stop", completion_tokens=len(words)),
        ],
    )
    made = invite(INVITE, created_at=NOW)
    assert client.state is not None
    others = client.state.mesh.invites if client.state.mesh is not None else ()
    client.effects["invite"] = (invites(*others, made),)
    files = Files()
    files.texts = LOGS
    client.replies = {
        **model_replies(),
        **plan_replies(),
        "certificates": certificates(),
        "config": config(),
        "logs": files.listed,
        "logs/read": files.read,
    }
    if scene.first_run:
        client.replies |= {name: fresh().replies[name] for name in ("config", "catalog")}
    return client


async def draw(scene: Scene) -> str:
    """The scene as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        chats = Path(folder) / "chats.sqlite" if scene.chats else None
        if chats is not None:
            await written(chats)
        app = MeshApp(
            lambda: _given(_client(scene)),
            preferences=Preferences(theme=scene.theme),
            wall=lambda: NOW,
            chats_file=chats,
            welcome_marker=Path(folder) / "seen" if scene.first_run else None,
        )
        async with app.run_test(size=scene.size) as pilot:
            await _settled(app, pilot)
            for key in scene.keys:
                await pilot.press(key)
                await pilot.pause(0.6)
            if scene.question:
                await ask(app, pilot, scene.question)
            await pilot.pause(0.6)
            return app.export_screenshot(title="meshllm")


async def live(open_node: Callable[[], Awaitable[NodeClient]], question: str) -> str:
    """The dashboard of a node that runs, as SVG, after one question to its model."""
    app = MeshApp(open_node, preferences=Preferences(), wall=time.time)
    async with app.run_test(size=LARGE) as pilot:
        await _settled(app, pilot)
        await pilot.press("7")
        await ask(app, pilot, question)
        return app.export_screenshot(title="meshllm")


async def ask(app: MeshApp, pilot: Pilot[Any], question: str) -> None:
    """Ask in a conversation of its own, and wait for the answer's end."""
    from meshllm_tui.pages.chat import ChatPage

    page = app.page
    assert isinstance(page, ChatPage)
    await pilot.pause(0.5)
    await pilot.press("escape", "n")
    await pilot.pause(0.3)
    page.chat.prompt.text = question
    await pilot.press("enter")
    await pilot.pause(0.5)
    while page.chat.answering:
        await pilot.pause(0.1)
    await pilot.pause(0.5)


async def _given(client: ScriptedClient) -> NodeClient:
    return client


async def _settled(app: MeshApp, pilot: Pilot[Any]) -> None:
    while app.session.snapshot is None:
        await pilot.pause(0.05)
    await pilot.pause(0.5)
