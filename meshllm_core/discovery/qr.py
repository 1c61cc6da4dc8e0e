"""A QR code as modules, as half blocks for a terminal, and as a PNG."""

import io
from itertools import groupby, product
from typing import Any

Matrix = tuple[tuple[bool, ...], ...]
"""Rows of modules; True is dark. Without the light border that a scanner needs around it."""

QUIET = 4
"""Light modules around a code, as the standard wants them."""
QUIET_SHOWN = 2
"""What scanners need in practice, and what leaves a code of version 5 room in 24 lines."""
SCALE_LIMIT = 40
TEXT_LIMIT = 1024

_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_BLACK, _WHITE = 16, 231
"""Of the 256 colours: those of the first 16 look as the terminal's theme wants."""
_PLAIN = "\x1b[0m"


def matrix(text: str) -> Matrix:
    """The smallest code that holds `text`, with the best error correction of that size.

    Capitals, digits and `:` take the least room. Raises ValueError for more than 1,024 characters.
    """
    # Imported here: it brings pillow along, and most commands draw no code.
    from qrcode.constants import ERROR_CORRECT_H, ERROR_CORRECT_L, ERROR_CORRECT_M, ERROR_CORRECT_Q
    from qrcode.main import QRCode

    if len(text) > TEXT_LIMIT:
        raise ValueError(f"{len(text)} characters are too many for a QR code.")
    codes: list[Any] = []
    for level in (ERROR_CORRECT_H, ERROR_CORRECT_Q, ERROR_CORRECT_M, ERROR_CORRECT_L):
        code = QRCode(error_correction=level, border=0)
        code.add_data(text, optimize=0)
        codes.append(code)
    best = min(codes, key=lambda code: int(code.best_fit()))
    best.make(fit=False)
    return tuple(tuple(bool(module) for module in row) for row in best.get_matrix())


def version(code: Matrix) -> int:
    """1 to 40; a code has 17 + 4 × version modules on each side."""
    return (len(code) - 17) // 4


def size_shown(code: Matrix, *, quiet: int = QUIET_SHOWN) -> tuple[int, int]:
    """Columns and lines that its half blocks take."""
    side = len(code) + 2 * quiet
    return side, -(-side // 2)


def halves(code: Matrix, *, quiet: int = QUIET_SHOWN) -> list[list[tuple[bool, bool]]]:
    """The cells of a terminal, line by line: whether the upper and the lower half of each is dark.

    Of an odd number of rows the last line's lower half belongs to the border as well.
    """
    light = ((False,) * (len(code) + 2 * quiet),) * quiet
    border = (False,) * quiet
    rows = [*light, *((*border, *row, *border) for row in code), *light, *light[:1]]
    return [list(zip(*rows[at : at + 2], strict=True)) for at in range(0, len(rows) - 1, 2)]


def half_blocks(code: Matrix, *, quiet: int = QUIET_SHOWN, inverted: bool = True) -> list[str]:
    """The code as text of two colours, that of letters and that of their ground.

    Inverted draws what is light, for terminals with light text on a dark ground; else what is dark is
    drawn, for text that is styled black on white.
    """
    return [
        "".join(_BLOCKS[upper != inverted, lower != inverted] for upper, lower in line)
        for line in halves(code, quiet=quiet)
    ]


def ansi_blocks(code: Matrix, *, quiet: int = QUIET_SHOWN) -> list[str]:
    """The code in black and white, whatever the terminal's colours are.

    Each cell has its lower half's colour as its ground, so that lines that stand apart leave no stripes in
    what is of one colour.
    """
    return [
        "".join(_painted(*cell, len(list(run))) for cell, run in groupby(line)) + _PLAIN
        for line in halves(code, quiet=quiet)
    ]


def _painted(upper: bool, lower: bool, count: int) -> str:
    ink, ground = (_BLACK if dark else _WHITE for dark in (upper, lower))
    return f"\x1b[38;5;{ink};48;5;{ground}m" + (" " if upper == lower else "▀") * count


def png(code: Matrix, scale: int = 8) -> bytes:
    """A picture with `scale` pixels for each module and a border of four. `scale` is from 1 to 40."""
    from PIL import Image

    if not 1 <= scale <= SCALE_LIMIT:
        raise ValueError(f"A scale of {scale}; it may be from 1 to {SCALE_LIMIT}.")
    side = len(code) + 2 * QUIET
    small = Image.new("1", (side, side), 1)
    for row, column in product(range(len(code)), repeat=2):
        if code[row][column]:
            small.putpixel((column + QUIET, row + QUIET), 0)
    file = io.BytesIO()
    small.resize((side * scale, side * scale), Image.Resampling.NEAREST).save(file, "PNG")
    return file.getvalue()
