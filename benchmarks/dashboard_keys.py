"""A walk by keys over all pages, and how long each key took until what it did was painted."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.dashboard_app import Notes
from benchmarks.dashboard_terminal import Terminal
from meshllm_tui.actions.pages import PAGES

PERIOD = 0.2
"""Seconds between two keys; one whose effect takes longer counts as lost, and lost keys are told."""
ROUNDS = 2
PAGE, FIRST = "page", "first opening"
_COMPLETE = 3
"""Parts of a frame's state when something has the keyboard."""
_TAB, _BACK, _DOWN, _UP, _ESCAPE = b"\t", b"\x1b[Z", b"\x1b[B", b"\x1b[A", b"\x1b"


@dataclass(frozen=True)
class Pressed:
    """One key."""

    page: str
    name: str
    at: float
    """On the monotonic clock."""
    counts: bool = True
    """Escape does not: a terminal waits after it, whether more comes."""


@dataclass(frozen=True)
class Painted:
    """What became of the keys."""

    found: list[tuple[Pressed, float]]
    """Each with its milliseconds."""
    lost: list[Pressed]
    """Those after which nothing was different, for example Down at the end of a list."""


def walk(terminal: Terminal) -> list[Pressed]:
    """Opens each page, moves in it and between its panes, opens jump mode and help; then leaves."""
    pressed: list[Pressed] = []

    def press(page: str, name: str, keys: bytes, *, counts: bool = True) -> None:
        pressed.append(Pressed(page, name, terminal.type(keys), counts))
        time.sleep(PERIOD)

    for turn in range(ROUNDS):
        for page in (*PAGES[1:], PAGES[0]):
            press(
                page.name,
                FIRST if turn == 0 and page is not PAGES[0] else PAGE,
                page.key.encode(),
            )
            for name, keys in (
                ("down", _DOWN),
                ("down", _DOWN),
                ("up", _UP),
                ("tab", _TAB),
                ("down", _DOWN),
                ("back", _BACK),
            ):
                press(page.name, name, keys)
            press(page.name, "jump", b"g")
            press(page.name, "escape", _ESCAPE, counts=False)
            press(page.name, "help", b"?")
            press(page.name, "escape", _ESCAPE, counts=False)
        press("chat", "write", b"i")
        for letter in b"hello":
            press("chat", "letter", bytes([letter]))
        press("chat", "escape", _ESCAPE, counts=False)
    terminal.type(b"\x11")
    time.sleep(0.5)
    terminal.type(b"\r")
    return pressed


def latencies(notes: Notes, pressed: Sequence[Pressed]) -> Painted:
    """From each key to the end of the frame that shows what it did."""
    painted = Painted([], [])
    ends = [*(each.at for each in pressed[1:]), pressed[-1].at + PERIOD]
    place = 0
    for each, end in zip(pressed, ends, strict=True):
        while place < len(notes.frames) and notes.frames[place].at <= each.at:
            place += 1
        before = notes.frames[place - 1].state if place else ()
        during = [frame for frame in notes.frames[place:] if frame.at <= end]
        # A page is there once one of its panes has the keyboard.
        least = _COMPLETE if each.name in (PAGE, FIRST) else 0
        shown = next(
            (
                frame
                for frame in during
                if frame.whole and frame.state != before and len(frame.state) >= least
            ),
            None,
        )
        if not each.counts:
            continue
        if shown is None:
            painted.lost.append(each)
        else:
            painted.found.append((each, 1000 * (shown.at - each.at)))
    return painted


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all are not above."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
