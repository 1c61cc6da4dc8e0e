"""A picture of what a terminal shows, drawn cell by cell as a terminal does: for QR codes in half blocks."""

from pathlib import Path

from PIL import Image, ImageDraw

CELL = (8, 16)
"""Pixels of a character cell: twice as high as wide, as terminals have it."""
_LIGHT, _DARK = (229, 229, 229), (24, 24, 24)


def picture_of(screen: str, path: Path) -> Path:
    """Draws the half blocks of `screen` (light ink on dark, as terminals are) into a PNG."""
    lines = screen.splitlines()
    width = max(len(line) for line in lines)
    image = Image.new("RGB", (width * CELL[0], len(lines) * CELL[1]), _DARK)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        for column, character in enumerate(line):
            x, y = column * CELL[0], row * CELL[1]
            half = CELL[1] // 2
            if character in "█▀":
                draw.rectangle((x, y, x + CELL[0] - 1, y + half - 1), fill=_LIGHT)
            if character in "█▄":
                draw.rectangle((x, y + half, x + CELL[0] - 1, y + CELL[1] - 1), fill=_LIGHT)
    image.save(path)
    return path
