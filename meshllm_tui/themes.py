"""Dark, light and high contrast. Every text token has a contrast of at least 4.5 on every ground (tested)."""

from dataclasses import dataclass

from textual.theme import Theme

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


_USES: dict[str, str] = {
    "text": "text block-cursor-foreground block-cursor-blurred-foreground input-cursor-background"
    " input-selection-foreground screen-selection-foreground button-foreground markdown-h1-color"
    " markdown-h2-color markdown-h3-color markdown-h4-color markdown-h5-color",
    "muted": "muted text-muted text-disabled markdown-h6-color scrollbar-hover",
    "ground": "input-cursor-foreground button-color-foreground scrollbar-background"
    " scrollbar-background-hover scrollbar-background-active scrollbar-corner-color",
    "panel": "block-cursor-blurred-background block-hover-background",
    "edge": "edge border-blurred scrollbar",
    "accent": "accent-text border scrollbar-active link-color link-color-hover text-primary text-secondary"
    " text-accent",
    "ok": "ok text-success",
    "warn": "warn text-warning",
    "bad": "bad text-error",
    "chosen": "chosen block-cursor-background input-selection-background screen-selection-background"
    " link-background-hover",
}
"""For each colour of a palette the style variables that have it; ours, then Textual's."""

_FIXED = {
    "block-cursor-text-style": "none",
    "button-focus-text-style": "bold reverse",
    "link-background": "transparent",
    "link-style": "underline",
}


def _theme(name: str, palette: Palette, *, dark: bool) -> Theme:
    uses = {use: getattr(palette, color) for color, names in _USES.items() for use in names.split()}
    return Theme(
        name=name,
        primary=palette.accent,
        secondary=palette.muted,
        accent=palette.accent,
        success=palette.ok,
        warning=palette.warn,
        error=palette.bad,
        foreground=palette.text,
        background=palette.ground,
        surface=palette.surface,
        panel=palette.panel,
        boost=palette.panel,
        dark=dark,
        variables=uses | _FIXED,
    )


THEMES: tuple[Theme, ...] = (
    _theme(
        "meshllm-dark",
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
        dark=True,
    ),
    _theme(
        "meshllm-light",
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
        dark=False,
    ),
    _theme(
        "meshllm-contrast",
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
        dark=True,
    ),
)
