"""What `meshllm certify` found, as JSON and as tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meshllm_core.certify.figures import NOISE
from meshllm_core.certify.gate import Artifact, allowed
from meshllm_core.certify.priors import reviewed
from meshllm_core.certify.record import Certified, CodecCertificate
from meshllm_core.cli.output import fields, table
from meshllm_core.engine.certify_model import Split
from meshllm_core.wire.codecs import CODECS

_HEAD = ("model", "artifact", "backend", "llama_cpp")
_COLUMNS = ("codec", "bytes/row", "same token", "mean KL", "max KL", "widened", "verdict")


def document(
    artifact: Artifact,
    splits: Sequence[Split],
    known: Sequence[Certified],
    *,
    file: str,
    width: int,
    llama_cpp: str,
    folder: Path,
) -> dict[str, Any]:
    """The whole result. `known`: the records that the gate believes; `width`: values per row."""
    return {
        "model": artifact.name or file,
        "artifact": artifact.sha256.hex(),
        "backend": splits[0].certificates[0].backend,
        "llama_cpp": llama_cpp,
        "folder": str(folder),
        "splits": [_split(artifact, split, known, width) for split in splits],
    }


def _split(artifact: Artifact, split: Split, known: Sequence[Certified], width: int) -> dict[str, Any]:
    first = split.certificates[0]
    return {
        "cuts": list(split.cuts),
        "positions": first.figures.positions,
        "floor": {
            "noise": NOISE,
            "seeds": list(first.conditions.seeds),
            "agreed": first.figures.floor_agreed,
            "mean_kl": first.figures.floor_mean_kl,
        },
        "codecs": [_codec(artifact, one, split.widened, known, width) for one in split.certificates],
    }


def _codec(
    artifact: Artifact,
    certificate: CodecCertificate,
    widened: Mapping[str, int],
    known: Sequence[Certified],
    width: int,
) -> dict[str, Any]:
    codec, figures = certificate.codec, certificate.figures
    ruling = allowed(artifact, certificate.cuts, codec, certificate.backend, known, reviewed())
    return {
        "codec": codec.label,
        "bytes_per_row": CODECS[codec].size_of(1, width),
        "agreed": figures.agreed,
        "mean_kl": figures.mean_kl,
        "max_kl": figures.max_kl,
        "shortfall": figures.shortfall,
        "widened_rows": widened[codec.label],
        "verdict": ruling.verdict,
        "allowed": ruling.allowed,
        "words": ruling.words,
    }


def show(result: dict[str, Any]) -> str:
    """The same for a person: one table for each split, the noise floor first."""
    parts = [fields([(key.replace("_", " "), result[key]) for key in _HEAD])]
    for split in result["splits"]:
        floor = split["floor"]
        rows: list[tuple[str, ...]] = [
            (
                f"noise {floor['noise']:.0e}",
                "",
                f"{floor['agreed']:.0f}",
                f"{floor['mean_kl']:.1e}",
                "",
                "",
                "the floor",
            )
        ]
        rows += [_row(one) for one in split["codecs"]]
        cuts = ", ".join(str(cut) for cut in split["cuts"])
        parts.append(f"\ncut at {cuts}: {split['positions']} positions")
        parts.append(table(_COLUMNS, rows, right=(1, 2, 3, 4, 5)))
    return "\n".join(parts)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    kl = (f"{one[key]:.1e}" for key in ("mean_kl", "max_kl"))
    counts = str(one["bytes_per_row"]), str(one["agreed"])
    return (one["codec"], *counts, *kl, str(one["widened_rows"]), str(one["verdict"]))
