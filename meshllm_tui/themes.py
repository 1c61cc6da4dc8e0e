"""Dark, light and high contrast. Every text token has a contrast of at least 4.5 on every ground (tested)."""

from textual.theme import Theme

from meshllm_tui.palettes import BUILT_IN, Palette

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


def theme_of(name: str, palette: Palette, *, dark: bool) -> Theme:
    """A theme of these colours."""
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


THEMES: tuple[Theme, ...] = tuple(
    theme_of(name, palette, dark=dark) for name, (palette, dark) in BUILT_IN.items()
)
