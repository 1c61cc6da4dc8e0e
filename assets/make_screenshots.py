"""Makes the pictures in assets/ from the dashboard itself: every page, main dialogs, some small or light.

They show a sample node in a sample mesh; its invite leads nowhere. With `--console URL --api URL --token-file
FILE` there is one picture, `dashboard.png`, of a node that runs, after asking its model one question. The PNG
is drawn by Chromium with a monospace font that is installed here (Fira Code or DejaVu Sans Mono), so that
columns line up and nothing is fetched.

    apt-get install -y chromium fonts-firacode fonts-dejavu-core
    python assets/make_screenshots.py            # or the names of some: mesh chat
"""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from assets.scenes import QUESTION, SCENES, Scene, draw, live  # noqa: E402
from meshllm_tui.connect import open_client  # noqa: E402

FONTS = "'Fira Code', 'DejaVu Sans Mono', monospace"
LARGEST_BYTES = 150 * 1024
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


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
        subprocess.run(command, check=True, capture_output=True, timeout=300)


def write(folder: Path, name: str, drawn: str) -> None:
    """Write the picture, with as few colours as a palette has. Raises ValueError where it is too large."""
    from PIL import Image

    png = folder / f"{name}.png"
    with tempfile.TemporaryDirectory() as made:
        svg, large = Path(made) / f"{name}.svg", Path(made) / f"{name}.png"
        svg.write_text(without_web_fonts(drawn))
        to_png(svg, large)
        with Image.open(large) as image:
            few = image.quantize(colors=64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            few.save(png, optimize=True)
    if png.stat().st_size > LARGEST_BYTES:
        raise ValueError(f"{png.name} has {png.stat().st_size} bytes; {LARGEST_BYTES} is the limit")


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="pictures to make; all when none is named")
    parser.add_argument("--console", default="", help="base URL of a node's management API")
    parser.add_argument("--api", default="", help="base URL of that node's OpenAI endpoint")
    parser.add_argument("--token-file", type=Path, default=Path("management-token"))
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--output", type=Path, default=HERE, help="directory")
    options = parser.parse_args()
    # Ages and times are the same wherever the pictures are made.
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder = options.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.console:
        open_node = partial(open_client, options.console, options.api, options.token_file)
        write(folder, "dashboard", asyncio.run(live(open_node, options.question)))
        return
    unknown = sorted(set(options.names) - {scene.name for scene in SCENES})
    if unknown:
        raise SystemExit(f"no such picture: {', '.join(unknown)}; there are {_names(SCENES)}")
    for scene in SCENES:
        if not options.names or scene.name in options.names:
            write(folder, scene.name, asyncio.run(draw(scene)))


def _names(scenes: tuple[Scene, ...]) -> str:
    return ", ".join(scene.name for scene in scenes)


if __name__ == "__main__":
    main()
