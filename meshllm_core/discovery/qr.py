"""A QR code as modules, as half blocks for a terminal, and as a PNG."""

import io
from itertools import product
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
_BLACK_ON_WHITE = "\x1b[38;5;16;48;5;231m"
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


def half_blocks(code: Matrix, *, quiet: int = QUIET_SHOWN, inverted: bool = True) -> list[str]:
    """One line of text for two rows of modules.

    Inverted draws what is light, for terminals with light text on a dark ground; else what is dark is
    drawn, for text that is styled black on white.
    """
    side = len(code) + 2 * quiet

    def drawn(row: int, column: int) -> bool:
        inside = quiet <= row < side - quiet and quiet <= column < side - quiet
        return (inside and code[row - quiet][column - quiet]) != inverted

    # Of an odd number of rows the last line's lower half belongs to the border as well.
    return [
        "".join(_BLOCKS[drawn(row, column), drawn(row + 1, column)] for column in range(side))
        for row in range(0, side, 2)
    ]


def ansi_blocks(code: Matrix, *, quiet: int = QUIET_SHOWN) -> list[str]:
    """Half blocks that set black on white themselves, whatever the terminal's colours are."""
    lines = half_blocks(code, quiet=quiet, inverted=False)
    return [f"{_BLACK_ON_WHITE}{line}{_PLAIN}" for line in lines]


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
