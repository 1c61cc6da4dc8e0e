"""The way in: something is on the screen before Textual is imported. No Textual here.

Reading the program from a cold disk takes longer than a person waits without wondering. So the terminal
shows the name and what is going on at once; Textual then draws over it, in the same alternate screen.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from meshllm_tui.preferences import Preferences

ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H"
"""Alternate screen, no cursor, empty, from the top."""
LEAVE = "\x1b[?1049l\x1b[?25h"


def run(
    *,
    console_url: str,
    api_url: str,
    token_file: Path,
    started_by_us: bool,
    ended: Callable[[], bool] | None = None,
    decode_picture: Callable[[Path], str] | None = None,
    scan_camera: Callable[[Callable[[], bool]], str] | None = None,
    chats_file: Path | None = None,
    welcome_marker: Path | None = None,
    preferences: Preferences | None = None,
) -> int:
    """Show the dashboard until a person leaves it; see `meshllm_tui.app.run`, which this calls."""
    terminal = sys.__stderr__
    painted = terminal is not None and paint_first(terminal, started_by_us)
    try:
        from meshllm_tui.app import run as run_app
    except BaseException:
        # Whatever it is, Ctrl+C too: it must be told on the person's own screen.
        if painted and terminal is not None:
            terminal.write(LEAVE)
            terminal.flush()
        raise
    return run_app(
        console_url=console_url,
        api_url=api_url,
        token_file=token_file,
        started_by_us=started_by_us,
        ended=ended,
        decode_picture=decode_picture,
        scan_camera=scan_camera,
        chats_file=chats_file,
        welcome_marker=welcome_marker,
        preferences=preferences,
    )


def paint_first(terminal: TextIO, started_by_us: bool) -> bool:
    """Draw the first line of the dashboard. False when this is no terminal that can be drawn on."""
    if os.name == "nt" or not terminal.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    words = "starting the node…" if started_by_us else "looking for the node…"
    columns = shutil.get_terminal_size().columns
    line = f" meshllm  ◌ {words}"[: max(columns, 1)]
    terminal.write(ENTER + line)
    terminal.flush()
    return True
