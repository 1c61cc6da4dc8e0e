"""The configuration as text: values as TOML writes them, and an example that documents every key."""

import json

from meshllm_core.config_keys import Value
from meshllm_core.config_table import KEYS


def literal(value: Value) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value:g}" if value % 1 else f"{value:.1f}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return f"[{', '.join(literal(item) for item in value)}]"


def example() -> str:
    """A config.toml with every key commented out at its default: as it stands it changes nothing."""
    lines = [
        "# Configuration of meshllm. Every key may be left out; what is shown is its default.",
        "# A variable in the environment wins over this file, an option of the command over both.",
    ]
    section = ""
    for row in KEYS:
        if row.section != section:
            section = row.section
            lines += ["", f"# --- {section} ---"]
        flag = f", {row.flag}" if row.flag else ""
        lines += ["", f"# {row.help}", f"# {row.allowed}; {row.variable}{flag}"]
        lines.append(f"# {row.name} = {literal(row.default)}")
    return "\n".join(lines)
