"""The code as it is shown can be read by a scanner: from the screen, a screenshot, a photo, a file."""

import io
import re

import pytest
import zxingcpp
from PIL import Image

from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact
from tests.discovery.test_token import TOKEN
from tests.support.pictures import photographed, screenshot

TEXT = compact(TOKEN)
CODE = qr.matrix(TEXT)


def scanned(picture: Image.Image) -> list[str]:
    """What zxing reads."""
    return [found.text for found in zxingcpp.read_barcodes(picture)]


def test_it_fits_a_small_terminal_with_room_for_words() -> None:
    assert (qr.version(CODE), len(CODE)) == (5, 37)
    assert qr.size_shown(CODE) == (41, 21)
    columns, lines = qr.size_shown(CODE, quiet=qr.QUIET)
    assert columns <= 80
    assert lines <= 23
    shown = qr.half_blocks(CODE)
    assert (len(shown[0]), len(shown)) == (41, 21)
    assert {len(line) for line in shown} == {41}


@pytest.mark.parametrize("quiet", [2, 4])
@pytest.mark.parametrize("cell", [(8, 16), (9, 19), (7, 15)])
def test_black_on_white_is_read(quiet: int, cell: tuple[int, int]) -> None:
    lines = qr.half_blocks(CODE, quiet=quiet, inverted=False)
    # Around the text is a dark terminal: only the border that is drawn helps.
    assert scanned(_framed(screenshot(lines, cell=cell), 20)) == [TEXT]


def test_plain_blocks_of_a_dark_terminal_are_dark_on_light() -> None:
    picture = screenshot(qr.half_blocks(CODE), ink=220, ground=20, margin=30)
    # A scanner that knows no inverted codes reads it, for the light modules are what is drawn.
    assert [found.text for found in zxingcpp.read_barcodes(picture, try_invert=False)] == [TEXT]


def test_painted_cells_are_black_and_white_whatever_the_terminal_says() -> None:
    assert _unpainted(qr.ansi_blocks(CODE)) == qr.halves(CODE)
    assert _unpainted(qr.ansi_blocks(CODE, quiet=3)) == qr.halves(CODE, quiet=3)


def _unpainted(lines: list[str]) -> list[list[tuple[bool, bool]]]:
    """The cells that coloured text shows."""
    dark = {"16": True, "231": False}
    shown = []
    for line in lines:
        assert line.endswith("\x1b[0m")
        runs = re.findall(r"\x1b\[38;5;(\d+);48;5;(\d+)m([ ▀]+)", line)
        cells = [
            (dark[ink if c == "▀" else ground], dark[ground]) for ink, ground, text in runs for c in text
        ]
        assert "".join(text for _, _, text in runs) == re.sub(r"\x1b\[[\d;]*m", "", line)
        shown.append(cells)
    return shown


def test_cells_are_the_modules_with_a_border() -> None:
    cells = qr.halves(CODE, quiet=2)
    rows = [[half[at] for half in line] for line in cells for at in (0, 1)]
    assert len(rows) == 42
    assert [tuple(row[2:-2]) for row in rows[2:39]] == list(CODE)
    assert not any(cell for row in (*rows[:2], *rows[39:]) for cell in row)
    assert not any(row[column] for row in rows for column in (0, 1, -2, -1))


def test_the_border_is_light_on_all_sides() -> None:
    lines = qr.half_blocks(CODE, quiet=2)
    assert set(lines[0]) == {"█"}
    assert set(lines[-1]) == {"█"}
    assert all(line[:2] == line[-2:] == "██" for line in lines)


@pytest.mark.parametrize("degrees", [0.0, 7.0, -7.0])
def test_a_photo_is_read(degrees: float) -> None:
    picture = screenshot(qr.half_blocks(CODE, inverted=False), cell=(10, 20))
    file = io.BytesIO()
    photographed(_framed(picture, 60), degrees=degrees).save(file, "JPEG", quality=45)
    assert scanned(Image.open(file)) == [TEXT]


def test_the_file_is_read() -> None:
    with Image.open(io.BytesIO(qr.png(CODE, 4))) as picture:
        assert picture.size == (180, 180)
        assert scanned(picture) == [TEXT]
        assert picture.getpixel((0, 0))


@pytest.mark.parametrize(
    ("length", "version", "level"),
    [(10, 1, "H"), (16, 1, "Q"), (20, 1, "M"), (25, 1, "L"), (154, 5, "L"), (155, 6, "L")],
)
def test_correction_is_the_best_of_the_smallest_size(length: int, version: int, level: str) -> None:
    code = qr.matrix("A" * length)
    with Image.open(io.BytesIO(qr.png(code))) as picture:
        (found,) = zxingcpp.read_barcodes(picture)
    assert (qr.version(code), found.ec_level) == (version, level)


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="too many"):
        qr.matrix("A" * 1025)
    for scale in (0, 41):
        with pytest.raises(ValueError, match="scale"):
            qr.png(CODE, scale)


def _framed(picture: Image.Image, margin: int) -> Image.Image:
    """The picture on a dark screen."""
    width, height = picture.size
    screen = Image.new("L", (width + 2 * margin, height + 2 * margin), 25)
    screen.paste(picture, (margin, margin))
    return screen
