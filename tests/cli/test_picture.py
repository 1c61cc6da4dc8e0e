"""Reading an invite from a picture: what a screen shows, what a phone makes of it, what is no picture."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from meshllm_core.cli import picture
from meshllm_core.cli.picture import is_picture, read_token_from_picture, token_in_picture
from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact
from meshllm_core.errors import ConfigError, MeshError, TokenInvalid
from tests.discovery.test_token import TOKEN
from tests.support.pictures import photographed, screenshot

TEXT = compact(TOKEN)
CODE = qr.matrix(TEXT)


def saved(image: Image.Image, kind: str = "PNG", **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def on_screen(
    lines: list[str], *, cell: tuple[int, int] = (9, 18), size: tuple[int, int] = (1280, 800)
) -> Image.Image:
    """A whole screen with the code in it, as a screenshot has it."""
    screen = Image.new("L", size, 24)
    screen.paste(screenshot(lines, cell=cell), (200, 90))
    return screen


DRAWN = qr.half_blocks(CODE, inverted=False)


@pytest.mark.parametrize(
    "image",
    [
        on_screen(DRAWN),
        on_screen(DRAWN, cell=(7, 15)),
        on_screen(DRAWN, size=(3840, 2160), cell=(18, 37)),
        ImageOps.invert(on_screen(DRAWN)),
        screenshot(qr.half_blocks(CODE), ink=229, ground=24, cell=(8, 16)),
        screenshot(DRAWN, cell=(2, 4)),
        screenshot(DRAWN, cell=(3, 7)),
        on_screen(DRAWN).rotate(90, expand=True),
        on_screen(DRAWN).point(lambda value: 100 + value // 10),
        photographed(on_screen(DRAWN, size=(760, 560))),
        photographed(on_screen(DRAWN, size=(760, 560)), degrees=-8, seed=3),
    ],
    ids=[
        "screen",
        "small font",
        "4K",
        "light theme",
        "no colour",
        "tiny",
        "odd",
        "turned",
        "pale",
        "photo",
        "photo 2",
    ],
)
def test_the_code_is_found(image: Image.Image) -> None:
    assert token_in_picture(saved(image), "x") == TEXT
    assert token_in_picture(saved(image.convert("RGB"), "JPEG", quality=60), "x") == TEXT


@pytest.mark.parametrize("gap", [1, 2, 4])
def test_gaps_between_a_terminals_lines_do_no_harm(gap: int) -> None:
    dark = screenshot(DRAWN, cell=(9, 18), gap=gap)
    light = screenshot(qr.half_blocks(CODE), ink=229, ground=24, cell=(9, 18), gap=gap)
    for image in (dark, light):
        assert token_in_picture(saved(ImageOps.expand(image, 40, 90)), "x") == TEXT


def test_transparent_and_indexed_pictures_are_read() -> None:
    with Image.open(io.BytesIO(qr.png(CODE))) as opened:
        grey = opened.convert("L")
    clear = Image.new("RGBA", grey.size, (0, 0, 0, 0))
    clear.putalpha(ImageOps.invert(grey))
    assert token_in_picture(saved(clear), "x") == TEXT
    assert token_in_picture(saved(grey.convert("P"), "GIF"), "x") == TEXT
    assert token_in_picture(saved(grey, "WEBP"), "x") == TEXT
    assert token_in_picture(saved(grey, "BMP"), "x") == TEXT


def refused(raw: bytes) -> str:
    with pytest.raises(TokenInvalid) as caught:
        token_in_picture(raw, "x.png")
    assert caught.value.hint
    return caught.value.message


def test_what_is_wrong_with_a_picture_is_told() -> None:
    other = qr.png(qr.matrix("https://example.org"))
    two = Image.new("L", (1000, 500), 255)
    for left, text in ((0, TEXT), (500, TEXT.replace("A", "B", 1))):
        with Image.open(io.BytesIO(qr.png(qr.matrix(text), 10))) as code:
            two.paste(code, (left, 0))
    said = {
        "none": refused(saved(Image.new("L", (300, 300), 255))),
        "other": refused(other),
        "several": refused(saved(two)),
        "cut": refused(saved(on_screen(DRAWN))[:2000]),
        "no picture": refused(b"hello"),
        "heic": refused(b"\0\0\0\x18ftypheic" + bytes(100)),
        "huge": refused(_small_file_of(100_000, 100_000)),
    }
    assert "No QR code" in said["none"]
    assert "not an invite of meshllm" in said["other"]
    assert "2 different invites" in said["several"]
    assert "damaged" in said["cut"]
    assert "not a picture" in said["no picture"]
    assert "HEIC" in said["heic"]
    assert "more than 50 million pixels" in said["huge"]
    assert refused(_small_file_of(10_000, 6000)) == said["huge"]
    assert len(set(said.values())) == len(said)


def test_one_invite_seen_twice_is_one() -> None:
    both = Image.new("L", (1000, 500), 255)
    with Image.open(io.BytesIO(qr.png(CODE, 10))) as code:
        both.paste(code, (0, 0))
        both.paste(code, (500, 0))
    assert token_in_picture(saved(both), "x") == TEXT


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="Cannot read"):
        read_token_from_picture(tmp_path / "none.png")
    file = tmp_path / "code.png"
    file.write_bytes(qr.png(CODE))
    assert read_token_from_picture(file) == TEXT
    monkeypatch.setattr(picture, "FILE_LIMIT", 100)
    with pytest.raises(TokenInvalid, match="larger than"):
        read_token_from_picture(file)


def _small_file_of(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is enormous."""
    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", size) + _chunk(b"IDAT", zlib.compress(bytes(100)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_pictures_are_told_from_texts() -> None:
    image = Image.new("L", (8, 8))
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        assert is_picture(saved(image, kind))
    assert not is_picture(TOKEN.encode())
    assert not is_picture(b"")


_SMALL = {kind: saved(Image.new("L", (40, 40), 200), kind) for kind in ("PNG", "JPEG", "WEBP", "GIF", "TIFF")}


@given(
    st.sampled_from(sorted(_SMALL)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8),
    st.integers(0, 10_000),
)
@settings(max_examples=150, deadline=None)
def test_a_damaged_picture_is_an_error_in_words(
    kind: str, changes: list[tuple[int, int]], length: int
) -> None:
    raw = bytearray(_SMALL[kind])
    for place, value in changes:
        raw[place % len(raw)] = value
    try:
        token_in_picture(bytes(raw[: length % (len(raw) + 1)]), "x")
    except MeshError as error:
        assert error.message
