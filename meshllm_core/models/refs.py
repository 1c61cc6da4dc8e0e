"""Reads what a person writes to name a model. Pure.

./model.gguf                          a file, or any part of a split set
owner/repo[:QUANT][@revision]         a repository of the hub
hf://owner/repo[:QUANT][@revision]    the same
hf://owner/repo[@revision]/file.gguf  one file of it
qwen3-8b                              a name from the catalogue
auto                                  the best model for this machine
default                               the small model that comes with meshllm
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath

from meshllm_core.errors import ModelNotFound
from meshllm_core.models.quants import known_quant, nearest_quant

AUTO = "auto"
DEFAULT = "default"

MAX_REF = 4096
"""Longest reference that is read, in characters."""

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_HUB = re.compile(
    rf"(?P<repo>{_PART}/{_PART})"
    r"(?::(?P<quant>[^:@/\s]{1,64}))?"
    r"(?:@(?P<revision>[^@:\s]{1,200}?))?"
    r"(?:/(?P<file>(?:[^/@:\s]+/)*[^/@:\s]+\.gguf))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FileRef:
    """A file on this machine."""

    path: Path


@dataclass(frozen=True)
class HubRef:
    """A model in a repository of the hub."""

    repo: str
    """owner/name."""
    quant: str = ""
    """Upper case; empty: whichever fits best."""
    revision: str = "main"
    """Branch, tag or commit."""
    file: str = ""
    """Path in the repository; empty: chosen by `quant`."""

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        if self.file:
            return f"hf://{self.repo}{revision}/{self.file}"
        return f"{self.repo}{f':{self.quant}' if self.quant else ''}{revision}"


@dataclass(frozen=True)
class CatalogRef:
    """An entry of the catalogue."""

    id: str


@dataclass(frozen=True)
class AutoRef:
    """The best model that fits."""


@dataclass(frozen=True)
class DefaultRef:
    """The model that comes with meshllm."""


ModelRef = FileRef | HubRef | CatalogRef | AutoRef | DefaultRef


def parse_ref(text: str, *, catalog: Collection[str] = ()) -> ModelRef:
    """What `text` names; `catalog` holds the catalogue's names. Raises ModelNotFound with a suggestion.

    A file is not looked for: its path is only recognised.
    """
    text = text.strip()
    if not text or len(text) > MAX_REF or "\0" in text:
        raise ModelNotFound("The name of the model is empty or unreadable.", hint=_FORMS)
    if text.lower() == AUTO:
        return AutoRef()
    if text.lower() == DEFAULT:
        return DefaultRef()
    scheme, _, rest = text.partition("://")
    if rest:
        if scheme.lower() != "hf":
            raise ModelNotFound(
                f"{text[:200]!r} is an address that is not understood.",
                hint="Use hf://owner/repo, or download the file and give its path.",
            )
        return _hub(rest, text)
    if _looks_like_path(text):
        return FileRef(expanded(text))
    if text.lower() in catalog:
        return CatalogRef(text.lower())
    if "/" in text:
        return _hub(text, text)
    raise _unknown(text, catalog)


_FORMS = "Give a .gguf file, owner/repo[:QUANT], a name from `meshllm models recommended`, auto or default."


def expanded(text: str) -> Path:
    """A path with the home folder in place of ~. Raises ModelNotFound where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        user = text.partition("/")[0]
        raise ModelNotFound(
            f"There is no home folder {user[:80]}.", hint="Write the path from / or from this folder."
        ) from error


def _looks_like_path(text: str) -> bool:
    if text.startswith(("/", "./", "../", "~", ".\\", "..\\")) or "\\" in text:
        return True
    if re.match(r"^[A-Za-z]:[\\/]", text):
        return True
    # Two parts with .gguf at the end could be both; nobody names a repository so.
    return PurePath(text).suffix.lower() == ".gguf"


def _hub(text: str, whole: str) -> HubRef:
    match = _HUB.fullmatch(text)
    if match is None:
        raise ModelNotFound(
            f"{whole[:200]!r} is not the name of a model in a repository.",
            hint="Write owner/repo, owner/repo:QUANT, owner/repo@revision or hf://owner/repo/file.gguf.",
        )
    quant = match["quant"] or ""
    if quant and known_quant(quant) is None:
        near = nearest_quant(quant)
        raise ModelNotFound(
            f"{quant!r} is not a quantization that is known.",
            hint=f"Did you mean {match['repo']}:{near}?" if near else "Usual ones: Q4_K_M, Q5_K_M, Q8_0.",
        )
    if ".." in (match["file"] or "").split("/"):
        raise ModelNotFound(f"{whole[:200]!r} leads out of the repository.", hint=_FORMS)
    return HubRef(
        repo=match["repo"],
        quant=known_quant(quant) or "",
        revision=match["revision"] or "main",
        file=match["file"] or "",
    )


def _unknown(text: str, catalog: Collection[str]) -> ModelNotFound:
    near = get_close_matches(text.lower(), [*catalog, AUTO, DEFAULT], 3, 0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else _FORMS
    return ModelNotFound(f"There is no model named {text[:200]!r}.", hint=hint)
