"""Pictures of codes: what a terminal shows, and what a camera makes of it."""

import random

from PIL import Image, ImageDraw, ImageFilter

_DRAWN = {" ": (), "▀": (0,), "▄": (1,), "█": (0, 1)}


def screenshot(
    lines: list[str],
    *,
    ink: int = 0,
    ground: int = 255,
    cell: tuple[int, int] = (9, 18),
    margin: int = 0,
    gap: int = 0,
) -> Image.Image:
    """A terminal's cells with half blocks in them, `ink` on `ground` (0 to 255), `gap` between the lines.

    All lengths are in pixels.
    """
    width, height = cell
    pitch = height + gap
    picture = Image.new("L", (len(lines[0]) * width + 2 * margin, len(lines) * pitch + 2 * margin), ground)
    draw = ImageDraw.Draw(picture)
    middle = height // 2
    for row, line in enumerate(lines):
        for column, character in enumerate(line):
            left, top = margin + column * width, margin + row * pitch
            for half in _DRAWN[character]:
                first, last = (top, top + middle - 1) if half == 0 else (top + middle, top + height - 1)
                draw.rectangle((left, first, left + width - 1, last), fill=ink)
    return picture


def photographed(picture: Image.Image, *, seed: int = 1, degrees: float = 7.0) -> Image.Image:
    """The picture on a table: turned, in perspective, out of focus, with noise and uneven light."""
    source = picture.convert("L")
    width, height = source.size
    canvas = Image.new("L", (width * 2, height * 2), 120)
    canvas.paste(source, (width // 2, height // 2))
    tilted = canvas.transform(
        canvas.size,
        Image.Transform.PERSPECTIVE,
        (1.08, 0.06, -0.08 * width, 0.02, 1.1, -0.08 * height, 0.00002, 0.00005),
        Image.Resampling.BICUBIC,
        fillcolor=120,
    )
    turned = tilted.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=120)
    soft = turned.filter(ImageFilter.GaussianBlur(1.2))
    draw = random.Random(seed)
    noise = Image.frombytes("L", soft.size, draw.randbytes(soft.size[0] * soft.size[1]))
    light = Image.linear_gradient("L").resize(soft.size).point(lambda value: 150 + value // 3)
    lit = Image.composite(soft, Image.new("L", soft.size, 30), light)
    return Image.blend(lit, noise, 0.12)
