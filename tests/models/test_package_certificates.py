"""Certificates travel with a package; whoever reads them believes no other signer for it."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from meshllm_core.certify.record import open_certificate, seal_certificate
from meshllm_core.errors import ModelFileInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.models.cache import Cache
from meshllm_core.models.certificates import hash_artifact
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_certificates import (
    CERTIFICATES_NAME,
    MAX_BYTES,
    artifact_of,
    encode_certificates,
    read_certificates,
)
from meshllm_core.models.package_fetch import find_package
from meshllm_core.models.package_folder import open_package, verify_package
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.node.split_gate import Gate
from meshllm_core.node.split_model import of_package
from meshllm_core.paths import Paths
from meshllm_core.planner.wire import Wire
from meshllm_core.wire.codecs import Dtype
from tests.certify.support import certificate
from tests.models.packages import files_of, write_model
from tests.support.hub import LocalHub

REPO = "owner/tiny-layers"
CUT = (3,)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny-F32.gguf")


def package(model: Path, folder: Path, raws: Sequence[bytes]) -> Path:
    return build_package(model, folder, created_at=1, certificates=raws).folder


def signed(key: SigningKey, model: Path, codec: Dtype = Dtype.Q8X) -> bytes:
    return seal_certificate(key, certificate(artifact=hash_artifact([model]), cuts=CUT, codec=codec))


def wire(folder: str, me: NodeId, paths: Paths, hub: Hub, requested: str = "auto") -> Wire | str:
    """What the gate says of a package, to the node `me`."""
    maker = StageMaker(Cache(paths.models), hub)
    found = find_package(folder, maker)
    assert found is not None
    return Gate(paths, of_package(found, folder, maker), requested, "cpu", me).wire(CUT)


def test_those_of_the_model_go_along_and_no_others(model: Path, tmp_path: Path) -> None:
    key = SigningKey.generate()
    foreign = seal_certificate(key, certificate())
    own = signed(key, model)
    opened = open_package(package(model, tmp_path / "p", [foreign, own]))
    assert read_certificates(opened.folder, opened.manifest) == ((own, open_certificate(own)),)
    assert artifact_of(opened.manifest) == hash_artifact([model])
    assert (CERTIFICATES_NAME, "") in list(verify_package(opened))
    assert not (package(model, tmp_path / "q", [foreign]) / CERTIFICATES_NAME).exists()


def test_own_measurements_count_and_those_of_strangers_do_not(
    model: Path, tmp_path: Path, paths: Paths, hub: Hub, local_hub: LocalHub
) -> None:
    me, stranger = SigningKey.generate(), SigningKey.generate()
    raws = [signed(me, model), signed(stranger, model, Dtype.Q8)]
    folder = package(model, tmp_path / "p", raws)
    local_hub.add(REPO, files_of(folder))
    for ref in (str(folder), f"hf://{REPO}"):
        own = wire(ref, me.public, paths, hub)
        assert isinstance(own, Wire) and (own.dtype, own.verdict) == ("q8x", "exact")
        refused = wire(ref, me.public, paths, hub, "q8")
        assert isinstance(refused, str) and "q8 was not measured" in refused
        other = wire(ref, SigningKey.generate().public, paths, hub)
        assert isinstance(other, Wire) and other.dtype == "f32"


def test_what_is_damaged_or_of_another_model_is_refused_as_a_whole(
    model: Path, tmp_path: Path, paths: Paths, hub: Hub
) -> None:
    me = SigningKey.generate()
    raw = signed(me, model)
    folder = package(model, tmp_path / "p", [raw])
    path = folder / CERTIFICATES_NAME
    forged = raw[:-1] + bytes([raw[-1] ^ 1])
    foreign = seal_certificate(me, certificate())
    cases = {
        "another model": encode_certificates([raw, foreign]),
        "cannot be used": encode_certificates([raw, forged]),
        "longer than": bytes(MAX_BYTES + 1),
        CERTIFICATES_NAME: os.urandom(300),
    }
    for words, data in cases.items():
        path.write_bytes(data)
        opened = open_package(folder)
        with pytest.raises(ModelFileInvalid, match=words):
            read_certificates(folder, opened.manifest)
        assert words in dict(verify_package(opened))[CERTIFICATES_NAME]
        # The package is whole without it; nothing in the file is believed, not even what is sound.
        found = wire(str(folder), me.public, paths, hub)
        assert isinstance(found, Wire) and found.dtype == "f32"
