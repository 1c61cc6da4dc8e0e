"""Finds the invite in a picture: a screenshot, a photo of a screen, the file that `invite --png` wrote."""

import io
import re
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshllm_core.errors import ConfigError, TokenInvalid

if TYPE_CHECKING:
    from PIL.Image import Image

FILE_LIMIT = 32 << 20
"""Bytes of a picture."""
PIXEL_LIMIT = 50_000_000
"""Checked before a picture is decoded: a small file may stand for an enormous one."""
SIDE_LIMIT = 2000
"""Pixels to which the longer side of a larger picture is reduced for the first look."""
SMALL_SIDE = 700
"""Pictures below are enlarged for a further look."""
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")

_INVITE = re.compile(r"meshllm:", re.IGNORECASE)
_STARTS = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"P4",
    b"P5",
    b"P6",
)
_CONTAINERS = (b"heic", b"heix", b"mif1", b"msf1", b"avif")
"""What phones save photos as; read by no part of this program."""
_SHOW_IT = "Show the code with `meshllm invite`, and take the picture straight from the front, near enough."


def is_picture(raw: bytes) -> bool:
    """Whether a file's first bytes are those of a picture."""
    webp = raw[:4] == b"RIFF" and raw[8:12] == b"WEBP"
    return webp or _is_container(raw) or raw.startswith(_STARTS)


def read_token_from_picture(path: Path) -> str:
    """The text of the invite's QR code in the picture. Raises ConfigError, TokenInvalid."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror}.", hint="Check the path and its permissions."
        ) from None
    return token_in_picture(raw, str(path))


def token_in_picture(raw: bytes, name: str) -> str:
    """The same for a picture's bytes; `name` says in errors which picture it is."""
    if len(raw) > FILE_LIMIT:
        raise TokenInvalid(
            f"{name} is larger than {FILE_LIMIT >> 20} MiB.", hint="Cut out the part with the code."
        )
    image = _decoded(raw, name)
    others = False
    for looked_at in _looks(image):
        texts = read_codes(looked_at)
        invites = sorted({text for text in texts if _INVITE.search(text)})
        if len(invites) == 1:
            return invites[0]
        if invites:
            raise TokenInvalid(
                f"{name} shows {len(invites)} different invites.", hint="Cut out the one that is meant."
            )
        others = others or bool(texts)
    if others:
        raise TokenInvalid(
            f"The QR code in {name} is not an invite of meshllm.",
            hint="Show the invite's code with `meshllm invite` on a machine of the mesh.",
        )
    raise TokenInvalid(f"No QR code was found in {name}.", hint=_SHOW_IT)


def read_codes(image: Any) -> list[str]:
    """The texts of all QR codes in a picture of pillow's or an array of grey or BGR pixels."""
    import zxingcpp

    found = zxingcpp.read_barcodes(image, formats=zxingcpp.BarcodeFormat.QRCode)
    return [code.text for code in found if code.valid]


def _decoded(raw: bytes, name: str) -> "Image":
    """The picture, upright and in shades of grey."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if _is_container(raw):
        raise TokenInvalid(
            f"{name} is a HEIC or AVIF picture, which is not read here.",
            hint="Save or share it as JPEG or PNG; a screenshot of it will do.",
        )
    try:
        with warnings.catch_warnings():
            # Pillow's own limit is looser than the one below, and damaged metadata is none of our concern.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(raw), formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > PIXEL_LIMIT:
                    raise _too_many_pixels(name)
                upright = ImageOps.exif_transpose(opened)
                return _on_white(upright).convert("L")
    except UnidentifiedImageError:
        raise TokenInvalid(
            f"{name} is not a picture.", hint="PNG, JPEG, WebP, GIF, BMP and TIFF are read."
        ) from None
    except Image.DecompressionBombError:
        raise _too_many_pixels(name) from None
    # Pillow's decoders raise any of these for files that are cut off or made to break it.
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as error:
        raise TokenInvalid(f"{name} is damaged: {error}.", hint="Save or copy it again.") from None


def _too_many_pixels(name: str) -> TokenInvalid:
    return TokenInvalid(
        f"{name} has more than {PIXEL_LIMIT // 1_000_000} million pixels.",
        hint="Make it smaller, or cut out the part with the code.",
    )


def _on_white(image: "Image") -> "Image":
    """What is transparent becomes white, as a viewer shows it."""
    from PIL import Image

    if image.mode not in ("RGBA", "LA", "PA") and "transparency" not in image.info:
        return image
    colours = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours)


def _looks(image: "Image") -> Iterator["Image"]:
    """The picture in the ways in which a code may show, the likeliest first."""
    from PIL import Image, ImageFilter, ImageOps

    longest = max(image.size)
    reduced = ImageOps.contain(image, (SIDE_LIMIT, SIDE_LIMIT)) if longest > SIDE_LIMIT else image
    yield reduced
    if reduced is not image:
        yield image
    stretched = ImageOps.autocontrast(reduced, cutoff=2)
    yield stretched
    if longest < SMALL_SIDE:
        factor = min(4, 2 * SMALL_SIDE // max(1, longest))
        enlarged = stretched.resize(
            (reduced.width * factor, reduced.height * factor), Image.Resampling.BICUBIC
        )
        yield enlarged
    # Gaps between the lines of a terminal close when it is seen from further away, or when what is drawn
    # grows a little: dark on light, or light on dark.
    yield stretched.filter(ImageFilter.GaussianBlur(2))
    for size in (3, 5):
        yield stretched.filter(ImageFilter.MinFilter(size))
        yield stretched.filter(ImageFilter.MaxFilter(size))
    yield stretched.filter(ImageFilter.MedianFilter(5))
    if longest > SMALL_SIDE // 2:
        yield ImageOps.scale(stretched, 0.5)


def _is_container(raw: bytes) -> bool:
    return raw[4:8] == b"ftyp" and raw[8:12] in _CONTAINERS
