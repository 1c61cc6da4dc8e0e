"""The built archives hold what the program needs, and the wheel runs from an empty folder."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.contracts import tree

CHECKOUT = tree.ROOT


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive, built from the checkout."""
    folder = tmp_path_factory.mktemp("archives")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    )
    return folder


def test_wheel_holds_every_file_of_the_packages(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {tree.name(path) for path in tree.files() if tree.top(path) in tree.PRODUCT}
    assert wanted <= held
    assert not {name for name in held if name.startswith(("tests/", "installers/", "benchmarks/"))}
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_source_archive_can_set_up_and_test(archives: Path) -> None:
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    for wanted in (
        "installers/run.sh",
        "installers/lib.sh",
        "installers/setup.py",
        "installers/build.lock",
        "requirements.lock",
        "requirements-dev.lock",
        "tests/conftest.py",
        "README.md",
        "LICENSE",
    ):
        assert wanted in held


def test_wheel_runs_outside_the_checkout(archives: Path, tmp_path: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import meshllm_core.cli.main as m;"
        "assert m.__file__.startswith(sys.path[0]); m.main(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "installed")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "meshllm 0.1.0\n", done.stderr
