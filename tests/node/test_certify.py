"""Measuring codecs on a node: told by events, one at a time, ended when asked; then listed."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from meshllm_core.api.schema_certify import Certificates
from meshllm_core.certify import prompts
from meshllm_core.certify.record import CodecCertificate, Conditions, seal_certificate
from meshllm_core.certify.verdict import Figures
from meshllm_core.config import load_settings
from meshllm_core.engine import certify_model
from meshllm_core.errors import ConfigError, CutRefused, ModelNotFound, NodeError
from meshllm_core.identity.keys import SigningKey
from meshllm_core.ids import NodeId
from meshllm_core.models.certificates import CertificateStore
from meshllm_core.models.embedded import embedded_model
from meshllm_core.node.answer_certificates import list_certificates
from meshllm_core.node.certify_desk import CertifyDesk
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths
from meshllm_core.state.certify_events import CertificationProgressed, CertificationView
from meshllm_core.state.mesh_events import IdentityLoaded
from meshllm_core.wire.codecs import Dtype
from tests.mesh.members import until


@dataclass
class Desk:
    """A node's desk for measurements with all that it stands on."""

    desk: CertifyDesk
    paths: Paths
    store: EventStore

    def listed(self) -> Certificates:
        """What is known, as the question answers."""
        return list_certificates(self.paths, self.store.snapshot.node, {})

    @property
    def view(self) -> CertificationView:
        view = self.store.snapshot.certification
        assert view is not None
        return view

    async def until(self, *states: str, seconds: float = 60.0) -> CertificationView:
        await until(lambda: self.view.state in states, seconds)
        return self.view


@contextlib.asynccontextmanager
async def node_of(folder: Path) -> AsyncIterator[Desk]:
    paths = Paths(folder / "config", folder / "data", folder / "cache", folder / "logs")
    settings = load_settings(paths, flags={"threads": 1, "device": "CPU"}, environ={})
    store = EventStore()
    key = SigningKey.generate()
    store.append(IdentityLoaded(at=1.0, node=key.public.hex(), storage="file"))

    async def signing_key() -> SigningKey:
        return key

    desk = CertifyDesk(settings, paths, store, signing_key)
    try:
        yield Desk(desk, paths, store)
    finally:
        await desk.close()
        store.close()


def left(paths: Paths) -> list[Path]:
    """What a measurement left behind."""
    return [*paths.cache.glob(".certify.*"), *paths.certificates.glob("*")]


def measuring_children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "meshllm_core.engine.certify" in " ".join(child.cmdline())
    ]


@pytest.mark.model
async def test_a_short_measurement_is_told_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "PROMPTS", ("The sea is",))
    monkeypatch.setattr(certify_model, "ANSWER_TOKENS", 8)
    async with node_of(tmp_path) as node:
        answer = await node.desk.start("default", (10, 20), ("q8x", "q8"))
        assert answer["cuts"] == [10, 20]
        assert (node.view.state, node.view.codecs) == ("running", ("q8x", "q8"))
        with pytest.raises(NodeError, match="default are being measured"):
            await node.desk.start("default", (), ())
        view = await node.until("done", "failed")
        assert view.state == "done", view.message
        assert [(one.codec, one.verdict) for one in view.verdicts] == [
            ("q8x", "untested"),
            ("q8", "untested"),
        ]
        told = [logged.event for logged in node.store.events_after(0) or ()]
        phases = [event.phase for event in told if isinstance(event, CertificationProgressed)]
        assert list(dict.fromkeys(phases)) == ["hashing", "writing", "answering", "measuring"]
        listed = node.listed()
        assert {(row.codec, row.cuts, row.positions, row.own) for row in listed.measured} == {
            ("q8x", (10, 20), 8, True),
            ("q8", (10, 20), 8, True),
        }
        row = listed.measured[0]
        assert (row.name, row.threads, row.verdict) == (embedded_model().name, 1, "untested")
        assert row.floor_mean_kl > 0
        assert "it takes 2000" in row.reason
        assert not list(node.paths.cache.glob(".certify.*"))


@pytest.mark.model
async def test_cancelling_ends_the_process_and_keeps_nothing(tmp_path: Path) -> None:
    async with node_of(tmp_path) as node:
        with pytest.raises(NodeError, match="No measurement"):
            node.desk.cancel()
        await node.desk.start("default", (), ())
        await until(lambda: bool(measuring_children()), 60.0)
        (found,) = measuring_children()
        await asyncio.sleep(0.2)
        assert found.nice() >= min(19, os.nice(0) + 1)
        node.desk.cancel()
        view = await node.until("cancelled", "failed", "done", seconds=10)
        assert view.state == "cancelled"
        assert not measuring_children()
        assert left(node.paths) == []
        # A node that has cancelled one may measure again.
        await node.desk.start("default", (), ())
        assert node.view.state == "running"
    assert not measuring_children()


@pytest.mark.model
async def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    async with node_of(tmp_path) as node:
        await node.desk.start("default", (), ())
        await until(lambda: bool(measuring_children()), 60.0)
        (found,) = measuring_children()
        found.kill()
        view = await node.until("cancelled", "failed", "done", seconds=10)
        assert view.state == "failed"
        assert "ended with signal 9" in view.message
        assert "certify.log" in view.hint
        assert left(node.paths) == []


@pytest.mark.parametrize(
    ("model", "cuts", "error", "words"),
    [
        ("default", (20, 10), ConfigError, "rising order"),
        ("default", (30,), CutRefused, "30 layers"),
        ("/nowhere/none.gguf", (), ModelNotFound, "none.gguf"),
    ],
)
async def test_what_cannot_be_measured_is_refused_before_it_begins(
    tmp_path: Path, model: str, cuts: tuple[int, ...], error: type[Exception], words: str
) -> None:
    async with node_of(tmp_path) as node:
        with pytest.raises(error, match=words):
            await node.desk.start(model, cuts, ())
        assert node.store.snapshot.certification is None


def record(key: SigningKey, digest: bytes, codec: Dtype, *, mean_kl: float, at: float) -> bytes:
    figures = Figures(
        positions=2240, agreed=2230, mean_kl=mean_kl, max_kl=0.1, floor_seeds=3, floor_agreed=2231.0,
        floor_mean_kl=1e-6, shortfall=0.2,
    )  # fmt: skip
    conditions = Conditions(
        meshllm="0.1.0", llama_cpp="0.3.36", device="cpu", threads=2, kv_type="f16", flash_attention="auto",
        prompts=bytes(32), answer_tokens=64, noise=1e-5, seeds=(1, 2, 3),
    )  # fmt: skip
    return seal_certificate(key, CodecCertificate(digest, (15,), codec, "cpu", figures, conditions, at))


async def test_records_of_others_are_listed_as_such_and_names_are_found(tmp_path: Path) -> None:
    async with node_of(tmp_path) as node:
        store = CertificateStore(node.paths.certificates)
        other, digest = SigningKey.generate(), bytes(range(32))
        store.add(record(other, digest, Dtype.Q8, mean_kl=1e-6, at=100.0))
        store.add(record(other, digest, Dtype.Q8X, mean_kl=5e-4, at=300.0))
        store.add(record(other, digest, Dtype.F16, mean_kl=0.5, at=200.0))
        store.name(digest, "owner/repo:Q4_K_M")
        (store.folder / "junk.certificate").write_bytes(b"junk")
        listed = node.listed()
        assert [(row.codec, row.verdict) for row in listed.measured] == [
            ("q8x", "validated"),
            ("f16", "rejected"),
            ("q8", "exact"),
        ]
        assert {(row.own, row.signer, row.name) for row in listed.measured} == {
            (False, NodeId(other.public).hex(), "owner/repo:Q4_K_M")
        }
        assert {(row.same_owner, row.measured_by) for row in listed.measured} == {
            (False, f"measured by node {other.public.hex()[:10]} (not trusted here)")
        }
        assert {(one.family, one.q8) for one in listed.reviewed} >= {
            ("deepseek", "rejected"),
            ("deepseek2", "validated"),
            ("gemma3", "rejected"),
            ("gemma3n", "validated"),
        }


def test_names_are_kept_newest_first_and_junk_is_no_name(tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    store.name(b"\1" * 32, "one")
    store.name(b"\2" * 32, "two")
    store.name(b"\1" * 32, "uno" + "x" * 500)
    assert list(store.names()) == [b"\1" * 32, b"\2" * 32]
    assert len(store.names()[b"\1" * 32]) == 200
    for junk in (b"[1]", b"{", b'{"zz": "x"}', b"\xff"):
        (tmp_path / "names.json").write_bytes(junk)
        assert store.names() == {}
