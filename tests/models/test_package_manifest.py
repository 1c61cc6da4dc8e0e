"""A manifest from outside: used when every part of it can be, refused in words when not."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.package_manifest import MAX_MANIFEST_BYTES, Manifest, encode_manifest, parse_manifest

Document = dict[str, Any]


def artifact(path: str) -> Document:
    return {"path": path, "tensor_count": 2, "tensor_bytes": 64, "artifact_bytes": 1000, "sha256": "ab" * 32}


SOUND: Document = {
    "schema_version": 1,
    "model_id": "owner/model:Q4_K_M",
    "format": "layer-package",
    "layer_count": 3,
    "activation_width": 64,
    "source_model": {"path": "model.gguf", "sha256": "cd" * 32, "canonical_ref": "x", "files": []},
    "shared": {name: artifact(f"shared/{name}.gguf") for name in ("metadata", "embeddings", "output")},
    "layers": [{"layer_index": i, **artifact(f"layers/layer-{i:05}.gguf")} for i in range(3)],
    "projectors": [{"kind": "mmproj", **artifact("projectors/mmproj.gguf")}],
    "generation": {"policy": {"profile": "anything"}},
    "skippy_abi_version": "0.1.53",
    "created_at_unix_secs": 1_760_000_000,
}


def parse(document: object) -> Manifest:
    return parse_manifest(json.dumps(document).encode(), "owner/repo")


def test_a_manifest_of_the_reference_is_read() -> None:
    manifest = parse(SOUND)
    assert [role.title for role, _ in manifest.fragments()] == [
        "metadata",
        "embeddings",
        "layer-000",
        "layer-001",
        "layer-002",
        "output",
    ]
    assert manifest.layers[1].path == "layers/layer-00001.gguf"
    assert parse_manifest(encode_manifest(manifest), "again") == manifest


def test_layers_may_stand_in_any_order_and_metadata_be_empty() -> None:
    document = copy.deepcopy(SOUND)
    document["layers"].reverse()
    document["shared"]["metadata"] |= {"tensor_count": 0, "tensor_bytes": 0}
    del document["projectors"], document["activation_width"]
    assert [layer.layer_index for layer in parse(document).layers] == [0, 1, 2]


PATHS = [
    "../outside.gguf",
    "layers/../../outside.gguf",
    "/etc/passwd",
    "C:/windows.gguf",
    "layers\\layer.gguf",
    "layers//layer.gguf",
    "./layer.gguf",
    ".git/config",
    "",
    "layers/\u202egpj.gguf",
    "a\nb.gguf",
    "con .gguf ",
    "x/" * 600 + "y",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    document = copy.deepcopy(SOUND)
    document["layers"][1]["path"] = path
    with pytest.raises(ModelFileInvalid, match=r"the path of layer-001.*leads out of it"):
        parse(document)


def _set(*keys: object, to: object) -> Callable[[Document], None]:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("schema_version", to=2), "schema 2; this meshllm reads schema 1"),
        (_set("format", to="something"), "its format is 'something'"),
        (_set("layer_count", to=10**9), "claims 1000000000 layers"),
        (_set("layer_count", to=0), "claims 0 layers"),
        (_set("layer_count", to=4), "layer 3 is missing"),
        (_set("layer_count", to=2), "lists layer 2 of 2"),
        (_set("layers", 1, "layer_index", to=0), "layer 0 is listed twice"),
        (_set("layers", 1, "layer_index", to=-1), "lists layer -1"),
        (_set("layers", 1, "path", to="layers/LAYER-00000.gguf"), "two entries name"),
        (_set("layers", 1, "artifact_bytes", to=0), "layer-001 claims 0 bytes"),
        (_set("layers", 1, "artifact_bytes", to=1 << 60), "layer-001 claims"),
        (_set("layers", 1, "tensor_bytes", to=1000), "bytes of tensors in 1000"),
        (_set("layers", 1, "tensor_bytes", to=0), "2 tensors of 0 bytes"),
        (_set("layers", 1, "tensor_count", to=-1), "-1 tensors"),
        (_set("layers", 1, "sha256", to="AB" * 32), "sha256 of layer-001"),
        (_set("layers", 1, "sha256", to="ab"), "sha256 of layer-001"),
        (_set("projectors", 0, "path", to="../up"), "the path of projector 0"),
        (_set("source_model", "sha256", to="?"), "source_model.sha256"),
        (_set("activation_width", to=1 << 40), "activation_width"),
        (_set("model_id", to="a\x1b[2J"), "model_id"),
        (_set("shared", to={}), "missing required field"),
        (_set("created_at_unix_secs", to="today"), "created_at_unix_secs"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(change: Callable[[Document], None], words: str) -> None:
    document = copy.deepcopy(SOUND)
    change(document)
    with pytest.raises(ModelFileInvalid, match=words) as caught:
        parse(document)
    assert "owner/repo" in caught.value.message
    assert caught.value.hint
    assert caught.value.message.isprintable()


def test_a_manifest_without_end_is_refused() -> None:
    with pytest.raises(ModelFileInvalid, match="the limit is"):
        parse_manifest(b" " * (MAX_MANIFEST_BYTES + 1), "owner/repo")
    with pytest.raises(ModelFileInvalid):
        parse_manifest(b"[" * 100_000, "owner/repo")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(ModelFileInvalid):
        parse_manifest(data, "owner/repo")


JSON: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
)


@given(st.sampled_from(sorted(SOUND)), JSON)
def test_any_value_of_a_field_is_used_or_refused(name: str, value: object) -> None:
    try:
        parse({**SOUND, name: value})
    except ModelFileInvalid as error:
        assert error.message
