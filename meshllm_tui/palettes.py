"""The colours of the dashboard's themes, by what they are for. No Textual here."""

from dataclasses import dataclass

DEFAULT_THEME = "meshllm-dark"


@dataclass(frozen=True)
class Palette:
    """The colours of one theme, by what they are for."""

    text: str
    muted: str
    """Text of less weight."""
    ground: str
    surface: str
    """Behind dialogs."""
    panel: str
    """Behind bars and questions."""
    edge: str
    """Borders without the keyboard."""
    accent: str
    """Keys, addresses, the border with the keyboard."""
    ok: str
    warn: str
    bad: str
    chosen: str
    """Behind the row with the keyboard."""


BUILT_IN: dict[str, tuple[Palette, bool]] = {
    "meshllm-dark": (
        Palette(
            text="#d9e0e8",
            muted="#93a1b3",
            ground="#10151c",
            surface="#151b24",
            panel="#1b232e",
            edge="#3b4858",
            accent="#74c0fc",
            ok="#7ddba0",
            warn="#f0c674",
            bad="#ff9a93",
            chosen="#243548",
        ),
        True,
    ),
    "meshllm-light": (
        Palette(
            text="#0d1118",
            muted="#545e6e",
            ground="#faf9f6",
            surface="#f4f2ed",
            panel="#efede7",
            edge="#b9b6ab",
            accent="#0b57b0",
            ok="#14663a",
            warn="#7a4b00",
            bad="#a81e2d",
            chosen="#d9e5f5",
        ),
        False,
    ),
    "meshllm-contrast": (
        Palette(
            text="#ffffff",
            muted="#e0e0e0",
            ground="#000000",
            surface="#000000",
            panel="#161616",
            edge="#ffffff",
            accent="#ffe04a",
            ok="#6dff8f",
            warn="#ffc14a",
            bad="#ffa3a3",
            chosen="#003a70",
        ),
        True,
    ),
}
"""By name: the colours, and whether they are light on dark."""
