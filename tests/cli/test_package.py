"""`meshllm package`: built, checked, shown and fetched as a person would, from a hub on loopback."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from meshllm_core.certify.record import seal_certificate
from meshllm_core.errors import ExitCode
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import load_or_create
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.models.marks import in_use
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths
from tests.certify.support import certificate
from tests.cli.conftest import Result, write_config
from tests.models.packages import LAYERS, files_of, tensors_of, write_model
from tests.support.hub import LocalHub, serve_hub

Run = Callable[..., Result]
REPO = "owner/tiny-layers"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny-F32.gguf")


@pytest.fixture
def folder(meshllm: Run, model: Path, tmp_path: Path) -> Path:
    done = meshllm("package", "build", str(model), "--out", str(tmp_path / "package"), "--model-id", "tiny")
    assert (done.code, done.out) == (0, f"{tmp_path / 'package'}\n"), done.err
    assert f"{LAYERS} layers" in done.err
    return tmp_path / "package"


@pytest.fixture
def hub(paths: Paths, folder: Path) -> Iterator[LocalHub]:
    with serve_hub() as served:
        served.add(REPO, files_of(folder))
        write_config(paths, f'hub_endpoint = "{served.address}"')
        yield served


def test_verify_names_what_is_wrong(meshllm: Run, folder: Path) -> None:
    sound = meshllm("package", "verify", str(folder))
    assert (sound.code, sound.err) == (0, "") and "9 of 9 files" in sound.out
    (folder / "layers/layer-002.gguf").write_bytes(b"GGUF")
    (folder / "layers/layer-003.gguf").unlink()
    broken = meshllm("package", "verify", str(folder))
    assert broken.code == ExitCode.CHECK and "7 of 9 files" in broken.out
    assert "layers/layer-002.gguf" in broken.out and "layers/layer-003.gguf is missing" in broken.out
    listed = meshllm("package", "verify", str(folder), "--json")
    assert listed.code == ExitCode.CHECK and listed.document["ok"] is False
    wrong = [file["path"] for file in listed.document["files"] if file["problem"]]
    assert wrong == ["layers/layer-002.gguf", "layers/layer-003.gguf"]
    nothing = meshllm("package", "verify", str(folder / "layers"))
    assert (nothing.code, nothing.out) == (ExitCode.MODEL, "")


def test_show_is_the_same_from_the_disk_and_from_the_hub(meshllm: Run, folder: Path, hub: LocalHub) -> None:
    here = meshllm("package", "show", str(folder), "--json").document
    assert here == meshllm("package", "show", f"hf://{REPO}", "--json").document
    assert here["manifest"]["model_id"] == "tiny"
    assert here["bytes_total"] == sum(len(d) for n, d in files_of(folder).items() if n.endswith(".gguf"))
    text = meshllm("package", "show", str(folder), "--layers", "1:3").out
    assert "layer-005" in text and "Layers 1 to 2 are a download of" in text


def test_fetch_gets_what_show_said(meshllm: Run, folder: Path, hub: LocalHub, model: Path) -> None:
    said = meshllm("package", "show", f"hf://{REPO}", "--layers", "0:2", "--json").document["fetch"]
    fetched = meshllm("package", "fetch", f"hf://{REPO}", "--layers", "0:2", "--json").document
    assert (
        tensors_of(Path(fetched["file"]))["blk.1.attn_q.weight"] == tensors_of(model)["blk.1.attn_q.weight"]
    )
    assert (fetched["shape"]["start"], fetched["shape"]["end"], fetched["id"]) == (0, 2, "tiny")
    # Beside the fragments the head of the output comes, with the norm that every stage keeps.
    assert said["bytes_least"] < fetched["downloaded"] < said["bytes_most"] + 100_000
    again = meshllm("package", "fetch", f"hf://{REPO}", "--layers", "0:2")
    assert "0 bytes were fetched" in again.err
    (row,) = [m for m in meshllm("models", "list", "--json").document["models"] if m["kind"] == "layers"]
    assert (row["id"], row["complete"]) == ("tiny", False)
    listed = next(line for line in meshllm("models", "list").out.splitlines() if "some layers" in line)
    assert show_bytes(row["bytes_here"]) in listed and row["bytes_here"] < row["bytes_total"]
    assert meshllm("models", "prune").out == ""
    assert "removed" in meshllm("models", "prune", "tiny").out
    assert not Path(fetched["file"]).exists()


def test_stages_are_listed_and_those_that_come_again_are_pruned(
    meshllm: Run, folder: Path, hub: LocalHub
) -> None:
    cut = Path(meshllm("package", "fetch", str(folder), "--layers", "1:3", "--json").document["file"])
    fetched = Path(meshllm("package", "fetch", f"hf://{REPO}", "--layers", "0:2", "--json").document["file"])
    rows = [m for m in meshllm("models", "list", "--json").document["models"] if m["kind"] == "layers"]
    stages = {row["ref"]: row["stages"] for row in rows}
    assert stages == {
        str(folder): [{"layer_start": 1, "layer_end": 3, "bytes": cut.stat().st_size}],
        f"hf://{REPO}": [{"layer_start": 0, "layer_end": 2, "bytes": fetched.stat().st_size}],
    }
    listed = meshllm("models", "list").out
    assert "layers 1 to 2" in listed and "layers 0 to 1" in listed
    with in_use((cut,)):
        assert "stays" in meshllm("models", "prune").err
    assert "would be removed" in meshllm("models", "prune", "--dry-run").out and cut.exists()
    assert "removed" in meshllm("models", "prune").out
    assert fetched.exists() and not cut.exists()


def test_certificates_go_along_and_show_says_whose_they_are(
    meshllm: Run, model: Path, paths: Paths, tmp_path: Path
) -> None:
    artifact = hash_artifact([model])
    store = CertificateStore(paths.certificates)
    stranger = SigningKey.generate()
    store.add(seal_certificate(load_or_create(paths).key, certificate(artifact=artifact, cuts=(2,))))
    store.add(seal_certificate(stranger, certificate(artifact=artifact, cuts=(3,))))
    target = str(tmp_path / "certified")
    assert meshllm("package", "build", str(model), "--out", target, "--no-probes").code == 0
    shown = meshllm("package", "show", target).out
    assert "q8x is exact cut at 2 on cpu: signed by this node." in shown
    assert f"cut at 3 on cpu: signed by {stranger.public.hex()[:10]}, not trusted here." in shown
    documents = meshllm("package", "show", target, "--json").document["certificates"]
    assert {(one["signer"], one["trusted"]) for one in documents} == {
        (load_or_create(paths).key.public.hex(), True),
        (stranger.public.hex(), False),
    }


@pytest.mark.parametrize("name", ["päck", "my packages/one", "a/b"])
def test_a_folder_is_found_by_its_name_from_here(
    meshllm: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert meshllm("package", "build", str(model), "--out", name, "--no-probes").code == 0
    for command in (("verify", name), ("show", name), ("fetch", name, "--layers", "0:1")):
        done = meshllm("package", *command)
        assert done.code == 0, done.err


@pytest.mark.parametrize("layers", ["", "3", "a:b", "2:99", "3:2", "-1:2", "1:2:3", "٣:٤"])
def test_ranges_that_are_none(meshllm: Run, folder: Path, layers: str) -> None:
    for command in ("fetch", "show"):
        done = meshllm("package", command, str(folder), f"--layers={layers}")
        if command == "show" and not layers:
            continue
        assert done.code in (ExitCode.USAGE, ExitCode.MODEL) and done.out == ""


def test_build_does_not_touch_what_is_there(meshllm: Run, folder: Path, model: Path) -> None:
    before = files_of(folder)
    done = meshllm("package", "build", str(model), "--out", str(folder))
    assert (done.code, done.out) == (ExitCode.USAGE, "") and "exists already" in done.err
    assert files_of(folder) == before
    absent = meshllm("package", "build", str(model) + "x.gguf", "--out", str(folder) + "2")
    assert absent.code == ExitCode.MODEL


def test_a_repository_without_a_package(meshllm: Run, hub: LocalHub, model: Path) -> None:
    hub.add("owner/plain-GGUF", {"plain-F32.gguf": model.read_bytes()})
    done = meshllm("package", "show", "hf://owner/plain-GGUF")
    assert (done.code, done.out) == (ExitCode.MODEL, "") and "no package of layers" in done.err
