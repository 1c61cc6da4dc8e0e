"""A package of layers, spread over real nodes: from a folder and from a hub, whole and damaged."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from meshllm_core.engine.probe_process import make_probes
from meshllm_core.models.cache import Cache, stages_in
from meshllm_core.models.gguf_file import read_head
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_build import build_package
from meshllm_core.models.package_fetch import prepare_stage
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.package_probes import PROBES_NAME
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from tests.models.packages import change_manifest, files_of
from tests.node.test_split import NAME, PROMPT, _ask, _row, _settled, mesh, whole
from tests.support.default_model import require_default_model
from tests.support.hub import LocalHub, serve_hub
from tests.support.nodes import RunningNode

__all__ = ("whole",)

REPO = "someone/SmolLM2-layers"
QUICK = "restart_limit = 1\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 as a package, with golden probes."""
    folder = tmp_path_factory.mktemp("package")
    model = require_default_model()
    rules = StageRules(open_source(local_files(model)))
    probes = make_probes(rules, (model,), folder / "log", threads=1)
    return build_package(model, folder / "smollm2", created_at=1_700_000_000, probes=lambda: probes).folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """The package, for a test that harms it."""
    return Path(shutil.copytree(built, tmp_path / "package"))


@pytest.fixture
def hub(built: Path) -> Iterator[LocalHub]:
    """A hub that has the package."""
    with serve_hub() as served:
        served.add(REPO, files_of(built))
        yield served


def _models(node: RunningNode) -> Path:
    return node.home / "cache" / "models"


def _stages(node: RunningNode) -> list[tuple[int, int]]:
    """Layers of every stage in a node's cache."""
    kept = Cache(_models(node)).models()
    return sorted((first, end) for model in kept for first, end, _ in stages_in(model.files))


def _layers(node: RunningNode) -> set[int]:
    """Those whose fragments a node has."""
    return {int(file.stem[6:]) for file in _models(node).rglob("layer-*.gguf")}


def _seen(node: RunningNode) -> list[tuple[str, str]]:
    """(machine, state) of every change of a stage, until all is ready; own stages have no machine."""
    found = []
    with httpx.stream("GET", f"{node.console}/api/events?after=0", timeout=10) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data:"):
                continue
            event = json.loads(line[5:])["event"]
            if "stage" in event:
                found.append((event["stage"].get("node_name", ""), event["stage"]["state"]))
            if event["type"] == "model_ready" or found[-1:] == [("", "ready")]:
                break
    return found


def test_each_machine_fetches_its_layers_of_a_package_at_the_hub(
    tmp_path: Path, hub: LocalHub, built: Path, whole: str
) -> None:
    settings = f'hub_endpoint = "{hub.address}"\nstage_source = "hub"\n'
    with mesh(tmp_path, "Anna", "Bert", settings=settings) as (anna, bert):
        anna.act("load", model=f"hf://{REPO}", split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        cut = row["split"]["stages"][0]["end"]
        assert _ask(anna).json()["choices"][0]["text"] == whole
        assert (_layers(bert), _layers(anna)) == (set(range(cut)), set(range(cut, 30)))
        total = sum(map(len, files_of(built).values()))
        sent = {name: hub.served[name] for name in ("Anna", "Bert")}
        assert 0 < max(sent.values()) < 0.85 * total, (sent, total)
        # What both need: the key/values with the probes, and the head of the tied embeddings.
        assert sum(sent.values()) < 1.4 * total, (sent, total)
        states = [*_seen(anna), *_seen(bert)]
        for machine in ("Anna", "Bert", ""):
            own = [state for who, state in states if who == machine]
            assert own.index("loading") < own.index("probing") < own.index("ready"), own


def test_from_a_folder_the_stages_are_sent_listed_and_kept_while_in_use(
    tmp_path: Path, built: Path, whole: str
) -> None:
    with mesh(tmp_path, "Anna", "Bert", settings=QUICK) as (anna, bert):
        anna.act("load", model=str(built), split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        assert _ask(anna).json()["choices"][0]["text"] == whole
        cut = row["split"]["stages"][0]["end"]
        assert _stages(bert) == [(0, cut)]
        cache = Cache(_models(bert))
        (kept,) = cache.models()
        assert (kept.id, kept.ref, kept.used_by) == (NAME, "sent by Anna", (bert.process.pid,))
        assert cache.prune(cache.models()).kept_in_use == (kept,)
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)
        # Its copy goes bad; its size says nothing.
        _spoil(kept.files[0])
        anna.act("load", model=str(built), split=True)
        row = _settled(anna)
        assert row["status"] == "failed"
        assert "Bert: its layers did not reproduce the model's golden probe" in row["error"]
        notices = " ".join(notice["text"] for notice in anna.snapshot()["notices"])
        assert f"Its layers 0 to {cut - 1} do not compute what the model does" in notices
        assert not bert.snapshot()["hosted_stages"]
        assert _stages(bert) == []
        # It is asked again when a person asks again, and fetches the stage anew.
        anna.act("load", model=str(built), split=True)
        anna.wait(lambda s: [m["status"] for m in s["models"] if m["ref"] == str(built)] == ["ready"], 60)
        anna.act("unload", model=NAME)
        bert.wait(lambda s: not s["hosted_stages"], 20)
        assert len(cache.prune(cache.models()).removed) == 1
        assert not cache.models()


def _spoil(file: Path) -> None:
    """A matrix of zeros in the first layer."""
    head = read_head(file)
    tensor = next(t for t in head.tensors if t.name == "blk.0.attn_q.weight")
    with file.open("r+b") as stream:
        stream.seek(head.data_offset + tensor.offset)
        stream.write(bytes(tensor.nbytes))


def test_without_probes_the_first_token_is_the_check_and_that_is_said(
    tmp_path: Path, folder: Path, whole: str
) -> None:
    (folder / PROBES_NAME).unlink()
    with mesh(tmp_path, "Anna", "Bert", settings=QUICK) as (anna, _):
        anna.act("load", model=str(folder), split=True)
        row = _settled(anna)
        assert row["status"] == "ready", row
        assert _ask(anna).json()["choices"][0]["text"] == whole
        notices = [notice["text"] for notice in anna.snapshot()["notices"]]
        assert any("no golden probes" in text for text in notices)
        states = [state for who, state in _seen(anna) if who == "Anna"]
        assert states.index("probing") < states.index("ready")


def test_a_package_that_fits_on_one_machine_is_not_split(tmp_path: Path, built: Path, whole: str) -> None:
    with mesh(tmp_path, "Anna", "Bert", flags=("--max-vram", "1")) as (anna, _):
        anna.act("load", model=str(built), split=True)
        row = _settled(anna)
        assert row["status"] == "failed"
        assert "Anna alone" in row["error"] and "It is not split" in row["error"]
        assert f"meshllm package fetch {built} --layers 0:30" in row["hint"]
        # And what the hint says can be done.
        file = prepare_stage(str(built), 0, 30, StageMaker(Cache(tmp_path / "fetched"), Hub())).file
        anna.act("load", model=str(file))
        anna.wait(lambda s: [m["status"] for m in s["models"] if m["ref"] == str(file)] == ["ready"], 60)
        body = {"model": file.stem, "prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
        answer = httpx.post(f"{anna.api}/v1/completions", json=body, timeout=60)
        assert answer.json()["choices"][0]["text"] == whole


def _cut_off(folder: Path) -> None:
    path = folder / "layers" / "layer-003.gguf"
    path.write_bytes(path.read_bytes()[:-64])


def _flip(folder: Path) -> None:
    path = folder / "layers" / "layer-003.gguf"
    data = path.read_bytes()
    path.write_bytes(data[:-8] + bytes(8))


def _layer(folder: Path, **changes: Any) -> None:
    change_manifest(folder, lambda manifest: manifest["layers"][3].update(changes))


def _failed(node: RunningNode, ref: str) -> dict[str, Any]:
    """The row of what was asked for as `ref`, once it failed."""

    def rows(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
        return [row for row in snapshot["models"] if row["ref"] == ref and row["status"] == "failed"]

    return rows(node.wait(lambda snapshot: bool(rows(snapshot))))[-1]


def test_damaged_packages_are_refused_by_name_and_nothing_stays(tmp_path: Path, built: Path) -> None:
    harms = {
        "short": (_cut_off, "layer-003.gguf has"),
        "flipped": (_flip, "layer-003.gguf is damaged"),
        "gone": (lambda folder: (folder / "layers" / "layer-003.gguf").unlink(), "layer-003.gguf is missing"),
        "outside": (lambda folder: _layer(folder, path="../layer-003.gguf"), "leads out of it"),
        "twice": (lambda folder: _layer(folder, layer_index=4), "layer 4 is listed twice"),
        "lost": (lambda folder: change_manifest(folder, lambda m: m["layers"].pop(3)), "layer 3 is missing"),
        "newer": (lambda folder: change_manifest(folder, lambda m: m.update(schema_version=2)), "schema 2"),
    }
    with mesh(tmp_path, "Anna", "Bert", settings=QUICK) as (anna, bert):
        for name, (harm, words) in harms.items():
            folder = Path(shutil.copytree(built, tmp_path / name))
            harm(folder)
            anna.act("load", model=str(folder), split=True)
            row = _failed(anna, str(folder))
            assert words in row["error"], (name, row)
            assert not bert.snapshot()["hosted_stages"]
            assert not list(_models(anna).rglob("*.part"))
            assert (0, 30) not in _stages(anna) and not _stages(bert)
            shutil.rmtree(folder)


def test_a_damaged_fragment_at_the_hub_is_named(tmp_path: Path, hub: LocalHub) -> None:
    """It is the other machine's layer: that machine finds out, and this one says so."""
    name = "layers/layer-000.gguf"
    files = hub.repositories[REPO].files
    files[name] = files[name][:-8] + bytes(8)
    hub.repositories[REPO].large = False
    settings = f'hub_endpoint = "{hub.address}"\n{QUICK}'
    with mesh(tmp_path, "Anna", "Bert", settings=settings) as (anna, bert):
        anna.act("load", model=f"hf://{REPO}", split=True)
        row = _settled(anna)
        assert row["status"] == "failed"
        assert f"Bert cannot compute its stage: {name} cannot be downloaded" in row["error"]
        assert "another version" in row["error"]
        assert not _stages(bert) and not list(_models(bert).rglob("layer-000.gguf"))
        assert _row(anna.snapshot())["status"] == "failed"
        assert (_models(anna).parent / "models").is_dir() and list(_models(anna).rglob(MANIFEST_NAME))
