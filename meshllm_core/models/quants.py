"""Quantizations: their names, how good they are, and which file of a repository has which. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from meshllm_core.models.split import model_stem, parse_split

_BEST_FIRST = """
    F32 BF16 F16 Q8_0 Q6_K_XL Q6_K_L Q6_K Q5_K_XL Q5_K_L Q5_K_M Q5_K_S Q5_1 Q5_0 MXFP4 MXFP4_MOE NVFP4
    Q4_K_XL Q4_K_L Q4_K_M Q4_K_S IQ4_NL IQ4_XS Q4_1 Q4_0 Q3_K_XL Q3_K_L Q3_K_M IQ3_M Q3_K_S IQ3_S IQ3_XS
    IQ3_XXS Q2_K_XL Q2_K_L Q2_K IQ2_M Q2_K_S IQ2_S IQ2_XS IQ2_XXS TQ2_0 TQ1_0 IQ1_M IQ1_S Q2_0 Q1_0
"""

QUANTS: tuple[str, ...] = tuple(_BEST_FIRST.split())
"""Best first."""

WASTEFUL = frozenset({"F32", "BF16", "F16"})
"""Twice the bytes of Q8_0 for answers nobody can tell apart: taken only when asked for, or alone."""

_IN_NAME = re.compile(
    r"(?:^|[-._/])(?:UD-)?(" + "|".join(sorted(QUANTS, key=len, reverse=True)) + r")(?=$|[-._/])",
    re.IGNORECASE,
)
_NOT_A_MODEL = re.compile(
    r"(?:^|[-._/])(mmproj|imatrix|ggml-vocab|lora|mtp|draft)(?=$|[-._/])", re.IGNORECASE
)
_OTHER_SPELLINGS = {"FP16": "F16", "FP32": "F32", "MXFP4_MOE": "MXFP4"}


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository."""

    path: str
    """In the repository."""
    size: int
    """Bytes."""
    sha256: str = ""
    """Of the content, where the hub stores the file as a large one."""
    git_sha1: str = ""
    """Git's object id, for small files."""


@dataclass(frozen=True)
class RemoteModel:
    """A model of a repository: one file, or all members of a split set in order."""

    quant: str
    """Upper case; empty if the name does not say."""
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def stem(self) -> str:
        """Its public name."""
        return model_stem(self.files[0].path)


def known_quant(text: str) -> str | None:
    """The usual spelling of a quantization, or None."""
    name = text.upper().removeprefix("UD-").replace("-", "_")
    name = _OTHER_SPELLINGS.get(name, name)
    return name if name in QUANTS else None


def nearest_quant(text: str) -> str:
    """A quantization that somebody may have meant, or an empty string."""
    name = text.upper().removeprefix("UD-")
    family = [quant for quant in ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K") if name == quant[:2]]
    return next(iter(family or get_close_matches(name, QUANTS, 1, 0.5)), "")


def quant_of(path: str) -> str:
    """The quantization that a file's path names, or an empty string."""
    found = _IN_NAME.findall(model_stem(path)) or _IN_NAME.findall(str(PurePosixPath(path).parent))
    return (known_quant(found[-1]) or "") if found else ""


def models_in(files: Iterable[RemoteFile]) -> tuple[list[RemoteModel], list[str]]:
    """The models of a repository, and the names of split sets that are not complete there."""
    groups: dict[str, dict[int, RemoteFile]] = {}
    counts: dict[str, int] = {}
    for file in files:
        if not file.path.lower().endswith(".gguf") or _NOT_A_MODEL.search(file.path):
            continue
        split = parse_split(PurePosixPath(file.path).name)
        key = str(PurePosixPath(file.path).with_name(split.stem)) if split else file.path
        groups.setdefault(key, {})[split.number if split else 1] = file
        counts[key] = split.count if split else 1
    models, broken = [], []
    for key, members in groups.items():
        if len(members) != counts[key]:
            broken.append(PurePosixPath(key).name)
            continue
        ordered = tuple(members[number] for number in sorted(members))
        models.append(RemoteModel(quant_of(ordered[0].path), ordered))
    return models, broken


def rank(quant: str) -> int:
    """Smaller is better; names that are not known come last."""
    return QUANTS.index(quant) if quant in QUANTS else len(QUANTS)


def best_that_fits(models: Iterable[RemoteModel], room: int) -> RemoteModel | None:
    """The best quantization within `room` bytes; half precision only where nothing else fits."""
    fitting = [model for model in models if model.size <= room]
    sensible = [model for model in fitting if model.quant not in WASTEFUL]
    return min(sensible or fitting, key=lambda model: (rank(model.quant), model.size), default=None)
