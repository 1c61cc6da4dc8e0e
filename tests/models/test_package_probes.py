"""Golden probes: written, read row by row, bound to their model, refused when they cannot be true."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.errors import ModelFileInvalid
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.package_probes import PROBES_NAME, GoldenProbes, ProbeFile, Rows, encode_probes
from meshllm_core.models.stage_source import SourceFile, local_files
from tests.models.packages import LAYERS, WIDTH, write_model

TOKENS = (1, 7, 299)


def rows(seed: int) -> Rows:
    return np.random.default_rng(seed).normal(size=(len(TOKENS), WIDTH)).astype(np.float32)


@pytest.fixture
def probes() -> GoldenProbes:
    return GoldenProbes(TOKENS, {b: rows(b) for b in range(LAYERS + 1)}, "llama.cpp, CPU")


def opened(data: bytes) -> ProbeFile:
    return ProbeFile(
        SourceFile(PROBES_NAME, len(data), lambda offset, length: data[offset : offset + length])
    )


def test_rows_come_back_bit_for_bit(probes: GoldenProbes) -> None:
    read = opened(encode_probes(probes, "ab" * 32, LAYERS))
    assert (read.tokens(), read.boundaries) == (TOKENS, tuple(range(LAYERS + 1)))
    assert (read.source_sha256, read.layers, read.made_with) == ("ab" * 32, LAYERS, "llama.cpp, CPU")
    for boundary in read.boundaries:
        assert np.array_equal(read.rows(boundary), rows(boundary))


def test_only_the_rows_that_are_asked_for_are_read(probes: GoldenProbes) -> None:
    data = encode_probes(probes, "ab" * 32, LAYERS)
    lengths: list[int] = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    file = ProbeFile(SourceFile(PROBES_NAME, len(data), read))
    lengths.clear()
    file.rows(3)
    assert lengths == [4 * WIDTH * len(TOKENS)]


def test_a_package_carries_them_and_checks_them(probes: GoldenProbes, tmp_path: Path) -> None:
    model = write_model(tmp_path / "tiny.gguf")
    folder = build_package(model, tmp_path / "p", created_at=1, probes=lambda: probes).folder
    assert (PROBES_NAME, "") in verify_package(open_package(folder))
    path = open_package(folder).probes()
    assert path is not None
    (file,) = local_files(path)
    assert np.array_equal(ProbeFile(file).rows(2), rows(2))
    other = build_package(
        write_model(tmp_path / "other.gguf", tied=True), tmp_path / "q", created_at=1, probes=lambda: probes
    ).folder
    (folder / PROBES_NAME).write_bytes((other / PROBES_NAME).read_bytes())
    found = dict(verify_package(open_package(folder)))
    assert "another model" in found[PROBES_NAME]
    assert [path for path, problem in found.items() if problem] == [PROBES_NAME]


@pytest.mark.parametrize(
    "boundaries",
    [
        {},
        {LAYERS + 1: rows(1)},
        {-1: rows(1)},
        {0: rows(1)[:2]},
        {0: rows(1) * np.float32(np.inf)},
        {0: rows(1)[0]},
    ],
)
def test_rows_that_cannot_be_probes_are_not_written(boundaries: dict[int, Rows]) -> None:
    with pytest.raises(ModelFileInvalid):
        encode_probes(GoldenProbes(TOKENS, boundaries, ""), "ab" * 32, LAYERS)


def changed(data: bytes, **entries: object) -> bytes:
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    for name, value in entries.items():
        name = name.replace("_at_", ".")
        if value is None:
            del header[name]
        else:
            header[name] = value
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


ROW_BYTES = 4 * WIDTH * len(TOKENS)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"tokens": None}, "no tokens"),
        ({"boundary_at_0": {"dtype": "F16", "shape": [3, 64], "data_offsets": [12, 12 + ROW_BYTES]}}, "F16"),
        (
            {"boundary_at_0": {"dtype": "F32", "shape": [3, 65], "data_offsets": [12, 12 + ROW_BYTES]}},
            "claims",
        ),
        (
            {
                "boundary_at_0": {
                    "dtype": "F32",
                    "shape": [3, 64],
                    "data_offsets": [1 << 40, (1 << 40) + ROW_BYTES],
                }
            },
            "outside",
        ),
        (
            {"boundary_at_0": {"dtype": "F32", "shape": [1 << 30, 1 << 30], "data_offsets": [0, 4 << 60]}},
            "claims",
        ),
        (
            {"boundary_at_9999": {"dtype": "F32", "shape": [3, 64], "data_offsets": [12, 12 + ROW_BYTES]}},
            "9999",
        ),
        ({"__metadata__": {"format": "pt"}}, "cannot be used"),
    ],
)
def test_a_header_that_cannot_be_true_is_refused(
    probes: GoldenProbes, entries: dict[str, object], words: str
) -> None:
    with pytest.raises(ModelFileInvalid, match=words):
        opened(changed(encode_probes(probes, "ab" * 32, LAYERS), **entries))


def test_rows_that_are_not_finite_are_refused(probes: GoldenProbes) -> None:
    data = bytearray(encode_probes(probes, "ab" * 32, LAYERS))
    data[-4:] = struct.pack("<f", float("nan"))
    with pytest.raises(ModelFileInvalid, match="finite"):
        opened(bytes(data)).rows(LAYERS)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(ModelFileInvalid):
        opened(data)
