"""Finds the invite in what a camera sees. Needs OpenCV, an extra of its own."""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from meshllm_core.cli.picture import read_codes
from meshllm_core.errors import ConfigError, TokenInvalid

SECONDS = 60.0
"""So long the code may take to come before the camera."""


def read_token_from_camera(source: int | str = 0, stop: Callable[[], bool] = lambda: False) -> str:
    """The text of the first invite's QR code that the camera sees; `source` is its number, or a film's path.

    Raises ConfigError without OpenCV or a camera, TokenInvalid when no invite was seen in time, or before
    `stop` said so.
    """
    if importlib.util.find_spec("cv2") is None:
        raise ConfigError(
            "Reading from a camera needs OpenCV, which is not installed.",
            hint=f"Install it with `{sys.executable} -m pip install opencv-python-headless`, "
            "or give a photo: `meshllm join PICTURE`.",
            param="--camera",
        )
    deadline = time.monotonic() + SECONDS
    for frame in _frames(source):
        for text in read_codes(frame):
            if "MESHLLM:" in text.upper():
                return text
        if stop() or time.monotonic() > deadline:
            break
    raise TokenInvalid(
        "The camera saw no invite.",
        hint="Hold the code still, straight before the camera, so that it fills half of what it sees.",
    )


def _frames(source: int | str) -> Iterator[Any]:
    import cv2

    camera = cv2.VideoCapture(source)
    try:
        if not camera.isOpened():
            raise ConfigError(
                f"Camera {source} cannot be opened.",
                hint="Check that it is connected, and that no other program uses it.",
                param="--camera",
            )
        while True:
            seen, frame = camera.read()
            if not seen:
                return
            yield frame
    finally:
        camera.release()
