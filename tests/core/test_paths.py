"""Where things live: one folder on request, else the platform's places."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from meshllm_core.paths import Paths, default_paths


def test_one_folder_holds_everything(tmp_path: Path) -> None:
    paths = default_paths({"MESHLLM_HOME": str(tmp_path)})
    folders = [getattr(paths, field.name) for field in fields(Paths)]
    assert len(set(folders)) == len(folders)
    assert all(folder.is_relative_to(tmp_path) for folder in folders)
    assert paths.config_file == tmp_path / "config/config.toml"
    assert paths.models == tmp_path / "cache/models"
    assert paths.token_file.parent == paths.node_file.parent == tmp_path / "data"


def test_tilde_means_the_home_folder() -> None:
    assert default_paths({"MESHLLM_HOME": "~/mesh"}).data == Path.home() / "mesh/data"


def test_nothing_is_made(tmp_path: Path) -> None:
    default_paths({"MESHLLM_HOME": str(tmp_path / "new")})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_the_platform_decides(value: str | None) -> None:
    paths = default_paths({} if value is None else {"MESHLLM_HOME": value})
    assert paths.config.name == "meshllm"
    assert paths.config.is_absolute()


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are Linux's convention")
def test_xdg_folders_are_used(tmp_path: Path) -> None:
    names = ("CONFIG", "DATA", "CACHE", "STATE")
    environ = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in names}
    code = "from meshllm_core.paths import default_paths as d; import sys; sys.stdout.write(repr(d({})))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environ, capture_output=True, text=True, check=True
    )
    for name, folder in (("config", "config"), ("data", "data"), ("cache", "cache"), ("logs", "state")):
        assert f"{name}={Path(tmp_path / folder / 'meshllm')!r}"[:-2] in done.stdout
