"""Makes the pictures in assets/ (.svg and .png) from the dashboard itself: dashboard and invite.

Without arguments they show a sample node in a sample mesh; its invite leads nowhere. With `--console URL
--api URL --token-file FILE` the dashboard is that of a node that runs, after asking its model one question.
The PNG is drawn by Chromium with a monospace font that is installed here (Fira Code or DejaVu Sans Mono),
so that columns line up and nothing is fetched.

    apt-get install -y chromium fonts-firacode fonts-dejavu-core
    python assets/make_screenshots.py
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from meshllm_core.api.client import ChatDelta  # noqa: E402
from meshllm_tui.app import MeshApp  # noqa: E402
from meshllm_tui.connect import open_client  # noqa: E402
from meshllm_tui.preferences import Preferences  # noqa: E402
from meshllm_tui.session import NodeClient  # noqa: E402
from tests.tui.mesh_samples import DAY, TOKEN, invite, invites, meshed  # noqa: E402
from tests.tui.samples import START, ScriptedClient  # noqa: E402

FONTS = "'Fira Code', 'DejaVu Sans Mono', monospace"
QUESTION = "Give me three reasons to run a model at home."
ANSWER = """Three reasons:

1. **Privacy.** What you write stays on your own machines.
2. **Cost.** After the hardware there is no bill per token.
3. **Control.** You choose the model, and it stays as it is.

```sh
curl -s localhost:9337/v1/models
```
"""
INVITE = "3f9a12bc04"
END = START + DAY
"""When the sample's invite runs out."""
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=2",
)


async def _sample() -> NodeClient:
    words = re.findall(r"\S+\s*", ANSWER)
    pieces = [ChatDelta(text=word) for word in words]
    return ScriptedClient(
        state=meshed(),
        answers={
            "invite": {"token": TOKEN, "id": "3f9a12bc04", "role": "host", "uses": 1, "expires_at": END}
        },
        effects={"invite": (invites(invite(INVITE)),)},
        pace=1 / 61,
        answer=[
            ChatDelta(reasoning="They want a short list. Privacy, cost, control."),
            *pieces,
            ChatDelta(finish_reason="stop", completion_tokens=len(words)),
        ],
    )


async def draw(
    open_node: Callable[[], Awaitable[NodeClient]],
    size: tuple[int, int],
    theme: str,
    question: str,
    wall: Callable[[], float],
    keys: tuple[str, ...] = (),
) -> str:
    """The dashboard as SVG, after one answer to `question`, if any, and some keys."""
    app = MeshApp(open_node, preferences=Preferences(theme=theme), wall=wall)
    async with app.run_test(size=size) as pilot:
        while app.session.snapshot is None:
            await pilot.pause(0.05)
        await pilot.pause(0.3)
        if question:
            app.home.go("chat")
            app.home.chat.prompt.text = question
            await pilot.press("enter")
            await pilot.pause(0.3)
            while app.home.chat.answering:
                await pilot.pause(0.1)
            await pilot.pause(0.5)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.5)
        return app.export_screenshot(title="meshllm")


def without_web_fonts(svg: str) -> str:
    """The SVG with fonts of this machine only."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    return re.sub(r"font-family:\s*[^;]+;", f"font-family: {FONTS};", svg)


def to_png(svg: Path, png: Path) -> None:
    """Draw an SVG with Chromium. Raises FileNotFoundError when it is not installed."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise FileNotFoundError("Chromium is not installed: apt-get install -y chromium")
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())
    if found is None:
        raise ValueError(f"{svg} has no viewBox")
    width, height = (round(float(part)) for part in found.groups())
    with tempfile.TemporaryDirectory() as profile:
        page = Path(profile) / "page.html"
        page.write_text(
            f'<body style="margin:0;background:transparent"><img src="{svg.as_uri()}" '
            f'style="display:block;width:{width}px;height:{height}px"></body>'
        )
        command = [
            browser,
            *CHROMIUM_FLAGS,
            f"--user-data-dir={profile}/profile",
            "--default-background-color=00000000",
            f"--window-size={width},{height}",
            f"--screenshot={png}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--console", default="", help="base URL of a node's management API")
    parser.add_argument("--api", default="", help="base URL of that node's OpenAI endpoint")
    parser.add_argument("--token-file", type=Path, default=Path("management-token"))
    parser.add_argument("--theme", default="meshllm-dark")
    parser.add_argument("--size", default="120x40", help="columns x rows of the dashboard")
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--output", type=Path, default=HERE, help="directory")
    options = parser.parse_args()
    columns, rows = (int(part) for part in options.size.split("x"))
    open_node = (
        partial(open_client, options.console, options.api, options.token_file) if options.console else _sample
    )
    wall = time.time if options.console else lambda: START + 200.0
    write = partial(_write, open_node, options.output.resolve(), options.theme, wall)
    write("dashboard", (columns, rows), options.question, ())
    if not options.console:
        # Never of a node that runs: whoever sees its invite could join.
        write("invite", (80, 24), "", ("v", "enter"))


def _write(
    open_node: Callable[[], Awaitable[NodeClient]],
    folder: Path,
    theme: str,
    wall: Callable[[], float],
    name: str,
    size: tuple[int, int],
    question: str,
    keys: tuple[str, ...],
) -> None:
    svg = folder / f"{name}.svg"
    drawn = asyncio.run(draw(open_node, size, theme, question, wall, keys))
    svg.write_text(without_web_fonts(drawn))
    to_png(svg, svg.with_suffix(".png"))


if __name__ == "__main__":
    main()
