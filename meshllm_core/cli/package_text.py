"""Packages as rows for a person and as JSON for a program."""

from collections.abc import Sequence
from typing import Any

import msgspec

from meshllm_core.certify.record import Certified
from meshllm_core.certify.verdict import judge
from meshllm_core.cli.output import table
from meshllm_core.ids import NodeId
from meshllm_core.models.package_fragment import EMBEDDINGS, METADATA, OUTPUT, layer_role
from meshllm_core.models.package_manifest import Manifest
from meshllm_core.models.package_stage import PreparedStage
from meshllm_core.models.units import show_bytes


def document(manifest: Manifest, identity: str) -> dict[str, Any]:
    """What a package holds; the manifest as it is, and its id."""
    return {
        "identity": identity,
        "bytes_total": _total(manifest),
        "manifest": msgspec.to_builtins(manifest),
    }


def rows(manifest: Manifest, identity: str) -> list[tuple[str, str]]:
    """The package as a whole."""
    source = manifest.source_model
    origin = f"{source.repo}@{source.revision}" if source.revision else source.repo or ""
    found = [
        ("model", manifest.model_id),
        ("id", identity),
        ("layers", str(manifest.layer_count)),
        ("width", str(manifest.activation_width or "–")),
        ("size", show_bytes(_total(manifest))),
        ("made from", f"{source.path} {origin}".strip()),
        ("its sha256", source.sha256),
    ]
    return found + [("projector", item.path) for item in manifest.projectors or ()]


def certificate_documents(records: Sequence[Certified], me: NodeId | None) -> list[dict[str, Any]]:
    """What was measured of the packaged model; only what this node signed itself counts here."""
    return [
        {
            "codec": record.certificate.codec.label,
            "cuts": list(record.certificate.cuts),
            "backend": record.certificate.backend,
            "verdict": str(judge(record.certificate.figures)),
            "signer": record.signer.hex(),
            "trusted": record.signer == me,
        }
        for record in records
    ]


def certificate_lines(documents: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each of them."""
    found = []
    for one in documents:
        cuts = ", ".join(map(str, one["cuts"]))
        whose = "this node" if one["trusted"] else f"{one['signer'][:10]}, not trusted here"
        found.append(
            f"{one['codec']} is {one['verdict']} cut at {cuts} on {one['backend']}: signed by {whose}."
        )
    return found


def fragments(manifest: Manifest) -> str:
    """One row per fragment."""
    shown = [
        (role.title, str(item.tensor_count), show_bytes(item.tensor_bytes), show_bytes(item.artifact_bytes))
        for role, item in manifest.fragments()
    ]
    return table(("fragment", "tensors", "weights", "file"), shown, right=(1, 2, 3))


def fetch_document(manifest: Manifest, first: int, end: int) -> dict[str, int]:
    """Bytes that a stage of layers [first, end) fetches: at least, and if it reads out by the embeddings."""
    roles = [METADATA, *(layer_role(layer) for layer in range(first, end))]
    roles += [EMBEDDINGS] if first == 0 else []
    roles += [OUTPUT] if end == manifest.layer_count else []
    least = sum(manifest.artifact(role).artifact_bytes for role in roles)
    tied = end == manifest.layer_count and first > 0
    most = least + (manifest.artifact(EMBEDDINGS).artifact_bytes if tied else 0)
    return {"first": first, "end": end, "bytes_least": least, "bytes_most": most}


def fetch_line(manifest: Manifest, first: int, end: int) -> str:
    """The same in a sentence."""
    found = fetch_document(manifest, first, end)
    least, most = show_bytes(found["bytes_least"]), show_bytes(found["bytes_most"])
    amount = least if least == most else f"{least} (with tied embeddings {most})"
    return f"Layers {first} to {end - 1} are a download of {amount}."


def stage_document(stage: PreparedStage) -> dict[str, Any]:
    """A stage that was fetched and made."""
    return {
        "id": stage.id,
        "file": str(stage.file),
        "bytes": stage.file.stat().st_size,
        "downloaded": stage.downloaded,
        "identity": stage.identity,
        "probes": str(stage.probes) if stage.probes else None,
        "shape": msgspec.to_builtins(stage.shape),
        "note": stage.note,
    }


def _total(manifest: Manifest) -> int:
    return sum(item.artifact_bytes for _, item in manifest.fragments())
