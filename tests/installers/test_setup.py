"""Steps are done once, again when what they depend on changes, and never look done when cut short."""

import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from installers import setup
from installers.environment import Environment
from installers.locks import pins, selected
from installers.machine import Machine
from installers.process import run_logged
from installers.report import SetupError
from installers.setup import Setup, Step
from tests.installers.conftest import Computer

CHECKOUT = Path(__file__).resolve().parents[2]


class Recorded(Setup):
    """The real set-up with steps that only note that they ran."""

    ran: list[str]
    failing: str = ""

    def steps(self) -> tuple[Step, ...]:
        return tuple(Step(s.name, s.doing, s.keys, partial(self._note, s), 0) for s in super().steps())

    def _note(self, each: Step) -> None:
        self.ran.append(each.name)
        if each.name == self.failing:
            raise SetupError("cut short", "again")
        if each.name == "environment":
            self.environment.python.parent.mkdir(parents=True, exist_ok=True)
            self.environment.python.unlink(missing_ok=True)
            self.environment.python.touch()
            (self.environment.folder / "pyvenv.cfg").touch()


def _set_up(venv: Path, machine: Machine, *, development: bool = False, failing: str = "") -> list[str]:
    made = Recorded(CHECKOUT, venv, development=development, machine=machine)
    made.ran, made.failing = [], failing
    try:
        made.run()
    except SetupError as error:
        assert error.message == "cut short"
    return made.ran


ALL = ["environment", "packages", "llama.cpp", "default model", "meshllm"]


def test_second_run_does_nothing(tmp_path: Path, computer: Computer) -> None:
    assert _set_up(tmp_path / "v", computer.machine()) == ALL
    assert _set_up(tmp_path / "v", computer.machine()) == []


def test_development_includes_what_running_needs(tmp_path: Path, computer: Computer) -> None:
    assert _set_up(tmp_path / "v", computer.machine(), development=True) == ALL
    assert _set_up(tmp_path / "v", computer.machine()) == []


def test_running_does_not_include_development(tmp_path: Path, computer: Computer) -> None:
    _set_up(tmp_path / "v", computer.machine())
    assert _set_up(tmp_path / "v", computer.machine(), development=True) == ["packages"]


def test_cut_short_step_is_done_again_and_the_rest_after_it(tmp_path: Path, computer: Computer) -> None:
    assert _set_up(tmp_path / "v", computer.machine(), failing="llama.cpp") == ALL[:3]
    assert _set_up(tmp_path / "v", computer.machine()) == ALL[2:]


def test_step_that_failed_on_repeat_no_longer_looks_done(tmp_path: Path, computer: Computer) -> None:
    _set_up(tmp_path / "v", computer.machine())
    computer.environ["CMAKE_ARGS"] = "-DNEW=1"
    assert _set_up(tmp_path / "v", computer.machine(), failing="llama.cpp") == ["llama.cpp"]
    del computer.environ["CMAKE_ARGS"]
    assert _set_up(tmp_path / "v", computer.machine()) == ["llama.cpp"]


def test_a_gpu_toolkit_installed_later_leads_to_a_new_engine(tmp_path: Path, computer: Computer) -> None:
    _set_up(tmp_path / "v", computer.machine())
    computer.program("nvidia-smi")
    computer.program("nvcc")
    assert _set_up(tmp_path / "v", computer.machine()) == ["llama.cpp"]


def test_moved_environment_is_made_anew(tmp_path: Path, computer: Computer) -> None:
    _set_up(tmp_path / "v", computer.machine())
    (tmp_path / "v").rename(tmp_path / "w")
    assert _set_up(tmp_path / "w", computer.machine()) == ALL


def test_environment_whose_python_is_gone_is_made_anew(tmp_path: Path, computer: Computer) -> None:
    _set_up(tmp_path / "v", computer.machine())
    python = tmp_path / "v/bin/python"
    python.unlink()
    python.symlink_to("/usr/bin/python-that-an-upgrade-removed")
    assert _set_up(tmp_path / "v", computer.machine()) == ALL


def test_somebody_elses_folder_is_left_alone(tmp_path: Path, computer: Computer) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SetupError, match="holds files and is not a virtual environment"):
        Setup(CHECKOUT, tmp_path, development=False, machine=computer.machine()).run()
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_too_small_a_disk_is_named_before_anything_is_made(
    tmp_path: Path, computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Setup(CHECKOUT, tmp_path / "v", development=False, machine=computer.machine())
    steps = [replace(each, needed=10**18) for each in made.steps()]
    monkeypatch.setattr(made, "steps", lambda: steps)
    with pytest.raises(SetupError, match="needs 5000000000000 MB") as caught:
        made.run()
    assert "MESHLLM_VENV" in caught.value.next_step
    assert not made.environment.python.exists()


def test_unreachable_folder_is_named(computer: Computer) -> None:
    with pytest.raises(SetupError, match="/dev/null/venv cannot be made") as caught:
        Setup(CHECKOUT, Path("/dev/null/venv"), development=False, machine=computer.machine()).run()
    assert "MESHLLM_VENV" in caught.value.next_step


def test_environment_is_made_anew_without_its_old_content(tmp_path: Path, computer: Computer) -> None:
    environment = Environment(tmp_path / "v e n v")
    environment.prepare()
    (environment.folder / "lib").mkdir()
    (environment.folder / "lib/old.py").touch()
    environment.create(computer.machine())
    assert not (environment.folder / "lib/old.py").exists()
    done = subprocess.run([environment.python, "-m", "pip", "--version"], capture_output=True, check=False)
    assert done.returncode == 0


def test_unreadable_record_means_nothing_is_done(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    environment.write_record({"packages": "1"})
    assert environment.record() == {"packages": "1"}
    next(tmp_path.glob("*.json")).write_text("[1")
    assert environment.record() == {}


def test_long_command_tells_its_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_logged(
        ["/bin/sh", "-c", "echo '[7/90] Building CXX'; sleep 1.2; exit 3"],
        log=tmp_path / "log",
        environ={"PATH": "/bin:/usr/bin"},
        waiting="building",
        every=0.4,
    )
    assert code == 3
    assert "building: 1 s, step 7 of 90" in capsys.readouterr().err


def test_selected_lock_entries_keep_their_hashes() -> None:
    text = selected(CHECKOUT / "installers/build.lock", frozenset({"ninja"}))
    assert text.startswith("ninja==")
    assert text.count("==") == 1
    assert text.count("--hash=sha256:") > 3


def test_engine_pin_is_the_projects() -> None:
    version = pins(CHECKOUT / "installers/llama-cpp-python.lock")["llama-cpp-python"]
    assert f'"llama-cpp-python=={version}"' in (CHECKOUT / "pyproject.toml").read_text()


def test_this_environment_is_up_to_date_and_starts_at_once() -> None:
    """The real run.sh on the environment that runs this test."""
    here = Environment(Path(sys.prefix))
    made = Setup(CHECKOUT, here.folder, development=True, machine=Machine())
    pending = [each.name for each in made.steps() if here.record().get(each.name) not in each.keys]
    if not here.record():
        pytest.skip("this environment was not made by the installers")
    assert pending == [], "run sh installers/test.sh once more"
    began = time.monotonic()
    done = subprocess.run(
        ["sh", str(CHECKOUT / "installers/run.sh"), "--version"],
        env={**made.machine.environ, "MESHLLM_VENV": sys.prefix},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert time.monotonic() - began < 4
    assert "Setting up" not in done.stderr


def test_main_reports_errors_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.main(["--venv", "/dev/null/venv"]) == 1
    error = capsys.readouterr().err
    assert "meshllm set-up stopped:" in error
    assert "Next:" in error
