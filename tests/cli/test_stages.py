"""`meshllm stages`: the table that a test made, and where one model may be cut."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode, ModelFileInvalid
from meshllm_core.models.architectures import BINDING
from meshllm_core.models.cache import Cache
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hub import Hub
from meshllm_core.models.package_folder import open_package
from meshllm_core.models.package_stage import StageMaker
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from meshllm_core.node.split_model import of_package
from tests.cli.conftest import Result
from tests.models.foreign_packages import entry, key_values, tensors, write_gguf
from tests.models.packages import LAYERS, build, files_of, write_model
from tests.support.tiny_architectures import write_tiny
from tests.support.tiny_bert import write_tiny_bert

Run = Callable[..., Result]


def test_the_table_names_every_architecture_and_its_proof(meshllm: Run) -> None:
    shown = meshllm("stages", "support")
    assert shown.code == 0, shown.err
    lines = {line.split("  ")[0]: line for line in shown.out.splitlines()}
    assert "7 of 7" in lines["qwen3"]
    assert "its layers are passed through several times" in lines["hrm_text"]
    assert f"Proved with {BINDING}: 32 positions" in shown.out
    document = meshllm("stages", "support", "--json").document
    assert document["llama_cpp"] == BINDING
    assert len({model["architecture"] for model in document["models"]}) == 119


def test_one_architecture_cut_by_cut(meshllm: Run) -> None:
    shown = meshllm("stages", "support", "glm-dsa").out.splitlines()
    assert [line.split()[1:3] for line in shown[1:4]] == [["1", "exact"], ["2", "refused"], ["3", "exact"]]
    assert "The nearest cut that is exact is 1." in shown[2]
    missing = meshllm("stages", "support", "bert")
    assert (missing.code, missing.out) == (ExitCode.USAGE, "")
    assert "'bert'" in missing.err


def test_where_a_model_may_be_cut(meshllm: Run, tmp_path: Path) -> None:
    shown = meshllm("stages", "show", str(embedded_model()))
    assert "at every layer" in shown.out
    model = write_tiny(tmp_path / "model.gguf", "glm-dsa")
    document = meshllm("stages", "show", str(model), "--json").document
    assert document["legal_cuts"] == [1, 3, 5]
    assert set(document["forbidden_cuts"]) == {"2", "4"}
    assert "Not at 2: layer 2 uses what layer 1 selected" in meshllm("stages", "show", str(model)).out


def test_the_stages_between_cuts(meshllm: Run) -> None:
    stages = meshllm("stages", "show", str(embedded_model()), "--cuts", "10,20", "--json").document
    assert [(stage["start"], stage["end"]) for stage in stages] == [(0, 10), (10, 20), (20, 30)]
    assert all(stage["mechanism"] == "file" for stage in stages)
    assert stages[1]["bytes"] < stages[0]["bytes"]
    table = meshllm("stages", "show", str(embedded_model()), "--cuts", "10").out
    assert "0 to 9" in table


def test_what_cannot_be_is_refused_in_words(meshllm: Run, tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model.gguf", "glm-dsa")
    refused = meshllm("stages", "show", str(model), "--cuts", "2")
    assert (refused.code, refused.out) == (ExitCode.MODEL, "")
    assert "cannot be cut at layer 2" in refused.err
    assert "nearest cut that is exact is 1" in refused.err
    unknown = meshllm("stages", "show", str(write_tiny_bert(tmp_path / "bert.gguf")))
    assert unknown.code == ExitCode.MODEL
    assert "(bert) cannot be divided" in unknown.err
    for cuts in ("a", "3,2", "1,1"):
        assert meshllm("stages", "show", str(model), "--cuts", cuts).code == ExitCode.USAGE


@pytest.mark.parametrize("command", [("stages", "show"), ("models", "show"), ("certify",)])
@pytest.mark.parametrize("name", ["\x1b[31mevil\x07", "\u202e" * 5000])
def test_what_a_file_says_commands_no_terminal(
    meshllm: Run, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    model = tmp_path / f"a{name[:8]}.gguf"
    model.write_bytes(write_gguf([entry("general.architecture", name)], tensors()))
    shown = meshllm(*command, str(model))
    assert shown.code == ExitCode.MODEL
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.err)
    assert len(shown.err) < 1000


def test_a_folder_is_no_file(meshllm: Run, tmp_path: Path) -> None:
    shown = meshllm("stages", "show", str(tmp_path))
    assert (shown.code, shown.out) == (ExitCode.MODEL, "")
    assert "Is a directory" in shown.err


def test_a_disk_that_fails_is_the_sources_fault(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(write_gguf(key_values(), tensors()))
    rules = StageRules(open_source(local_files(model)))
    model.unlink()
    with pytest.raises(ModelFileInvalid, match=r"model\.gguf cannot be read: No such file"):
        write_stage_file(plan_stage_file(rules, 1, 3), tmp_path / "stage.gguf")
    assert list(tmp_path.iterdir()) == []


def test_a_package_is_cut_and_planned_as_its_model(meshllm: Run, tmp_path: Path) -> None:
    model = write_model(tmp_path / "tiny-F32.gguf")
    folder = build(model, tmp_path / "package").folder
    before = files_of(folder)
    for arguments in (("stages", "show", "--json"), ("stages", "show", "--cuts", "2,4", "--json")):
        shown = [meshllm(*arguments, str(path)) for path in (model, folder)]
        assert shown[0].code == 0, shown[0].err
        assert shown[1].out == shown[0].out
    nodes = tmp_path / "nodes.toml"
    nodes.write_text('[[nodes]]\nname = "a"\nmemory = "300MB"\n[[nodes]]\nname = "b"\nmemory = "400MB"\n')
    planned = [meshllm("plan", str(path), "--nodes", str(nodes), "--json") for path in (model, folder)]
    assert [one.code for one in planned] == [0, 0], planned[1].err
    assert planned[1].out == planned[0].out and planned[0].document["chosen"]
    described = of_package(open_package(folder), str(folder), StageMaker(Cache(tmp_path / "cache"), Hub()))
    assert described.planned.model.layers == LAYERS
    assert files_of(folder) == before
