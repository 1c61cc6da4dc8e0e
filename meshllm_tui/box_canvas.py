"""Boxes, lines and words on a grid of terminal cells; lines that meet make the right corner. No Textual."""

from dataclasses import dataclass

from meshllm_tui.cleaning import cells
from meshllm_tui.present import Line, Span, Tone

_NORTH, _SOUTH, _WEST, _EAST = 1, 2, 4, 8
_JOINTS = {
    _WEST | _EAST: "─",
    _NORTH | _SOUTH: "│",
    _SOUTH | _EAST: "┌",
    _SOUTH | _WEST: "┐",
    _NORTH | _EAST: "└",
    _NORTH | _WEST: "┘",
    _NORTH | _SOUTH | _EAST: "├",
    _NORTH | _SOUTH | _WEST: "┤",
    _WEST | _EAST | _SOUTH: "┬",
    _WEST | _EAST | _NORTH: "┴",
    _NORTH | _SOUTH | _WEST | _EAST: "┼",
    _NORTH: "│",
    _SOUTH: "│",
    _WEST: "─",
    _EAST: "─",
}
_HEAVY = str.maketrans("─│┌┐└┘├┤┬┴┼", "━┃┏┓┗┛┣┫┳┻╋")
_THICK = "━┃┏┓┗┛┣┫┳┻╋┠┨┢┪┡┩"
_LIGHT_ARM = {"├": "┠", "┤": "┨"}
"""A thin line that meets a thick one."""
_DASH = "╌"


@dataclass(frozen=True)
class Box:
    """A rectangle with a border, in cells; `key` says what it stands for."""

    key: str
    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """Its last column."""
        return self.left + self.width - 1

    @property
    def bottom(self) -> int:
        """Its last line."""
        return self.top + self.height - 1

    def holds(self, x: int, y: int) -> bool:
        """Whether a cell is in it, its border included."""
        return self.left <= x <= self.right and self.top <= y <= self.bottom


class Canvas:
    """Starts blank. What is outside is not drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[" "] * width for _ in range(height)]
        self._tones: list[list[Tone]] = [["plain"] * width for _ in range(height)]
        self._arms: dict[tuple[int, int], int] = {}

    def copy(self) -> "Canvas":
        """The same picture, to be drawn on by itself."""
        other = Canvas(0, 0)
        other.width, other.height = self.width, self.height
        other._cells = [row.copy() for row in self._cells]
        other._tones = [row.copy() for row in self._tones]
        other._arms = self._arms.copy()
        return other

    def box(self, box: Box, tone: Tone, *, heavy: bool = False) -> None:
        """A border; where it meets another one they share it."""
        for x in range(box.left, box.right):
            for y in (box.top, box.bottom):
                self._join(x, y, _EAST, tone)
                self._join(x + 1, y, _WEST, tone)
        for y in range(box.top, box.bottom):
            for x in (box.left, box.right):
                self._join(x, y, _SOUTH, tone)
                self._join(x, y + 1, _NORTH, tone)
        if heavy:
            for x in range(box.left, box.right + 1):
                for y in (box.top, box.bottom):
                    self._thicken(x, y)
            for y in range(box.top, box.bottom + 1):
                for x in (box.left, box.right):
                    self._thicken(x, y)
            self._trim_corners(box)

    def across(self, y: int, first: int, last: int, *, dashed: bool = False) -> None:
        """A line to the right, joined to what it meets at its ends."""
        for x in range(first, last):
            self._join(x, y, _EAST, "muted")
            self._join(x + 1, y, _WEST, "muted")
        if dashed:
            for x in range(first + 1, last):
                if self._inside(x, y):
                    self._cells[y][x] = _DASH

    def down(self, x: int, first: int, last: int) -> None:
        """A line downwards, joined to what it meets at its ends."""
        for y in range(first, last):
            self._join(x, y, _SOUTH, "muted")
            self._join(x, y + 1, _NORTH, "muted")

    def text(self, x: int, y: int, text: str, tone: Tone) -> None:
        """Words, which must be cleaned; a wide character takes two cells."""
        if text.isascii() and 0 <= y < self.height and x >= 0 and x + len(text) <= self.width:
            self._cells[y][x : x + len(text)] = text
            self._tones[y][x : x + len(text)] = [tone] * len(text)
            return
        for character in text:
            wide = cells(character)
            if wide == 0:
                if self._inside(x - 1, y):
                    self._cells[y][x - 1] += character
                continue
            if not self._inside(x, y) or not self._inside(x + wide - 1, y):
                return
            self._cells[y][x], self._tones[y][x] = character, tone
            for more in range(1, wide):
                self._cells[y][x + more] = ""
            x += wide

    def lines(self) -> tuple[Line, ...]:
        """What was drawn, cells of one tone together."""
        return tuple(_spans(row, tones) for row, tones in zip(self._cells, self._tones, strict=True))

    def _inside(self, x: int, y: int) -> bool:
        return 0 <= x < self.width and 0 <= y < self.height

    def _join(self, x: int, y: int, arm: int, tone: Tone) -> None:
        if not self._inside(x, y):
            return
        arms = self._arms.get((x, y), 0) | arm
        heavy = self._cells[y][x] in _THICK
        self._arms[x, y] = arms
        joint = _JOINTS[arms]
        if not heavy:
            self._cells[y][x], self._tones[y][x] = joint, tone
        else:
            self._cells[y][x] = _LIGHT_ARM.get(joint, "") or joint.translate(_HEAVY)

    def _trim_corners(self, box: Box) -> None:
        """Where a thick box stands on a thin one, only its own border is thick."""
        for y, corners in ((box.top, "┢┪"), (box.bottom, "┡┩")):
            for x, corner in zip((box.left, box.right), corners, strict=True):
                if self._inside(x, y) and self._cells[y][x] in "┣┫":
                    self._cells[y][x] = corner

    def _thicken(self, x: int, y: int) -> None:
        if self._inside(x, y):
            self._cells[y][x] = self._cells[y][x].translate(_HEAVY)


def _spans(row: list[str], tones: list[Tone]) -> Line:
    spans: list[Span] = []
    start = 0
    for place in range(1, len(row)):
        # Blanks have no tone of their own.
        if tones[place] != tones[start] and row[place] not in ("", " "):
            spans.append(Span("".join(row[start:place]), tones[start]))
            start = place
    spans.append(Span("".join(row[start:]), tones[start]))
    return tuple(spans)
