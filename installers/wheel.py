"""The engine's wheel: built from source for this very machine, then kept and used again."""

import hashlib
import json
import shlex
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from installers.accelerator import OVERRIDE, Choice
from installers.locks import pins
from installers.machine import Machine, install_command
from installers.packages import ENGINE_BUILDERS, build_tools
from installers.process import locked, log_tail, require_space, run_logged
from installers.report import SetupError, duration, say

PACKAGE = "llama-cpp-python"
CACHE_VARIABLE = "MESHLLM_WHEEL_CACHE"
_COMPILER_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDAARCHS", "MACOSX_DEPLOYMENT_TARGET")
_BYTES_PER_JOB = 1_500_000_000
_BUILD_BYTES = {"cpu": 1_000_000_000, "metal": 1_000_000_000, "vulkan": 3_000_000_000}
_BUILD_BYTES_GPU = 8_000_000_000


@dataclass(frozen=True)
class Built:
    """A wheel in the cache; `reused` says that it was there before."""

    path: Path
    reused: bool


@dataclass(frozen=True)
class Recipe:
    """Everything that makes one wheel differ from another."""

    version: str
    accelerator: str
    cmake_args: tuple[str, ...]
    platform: str
    cpu_features: tuple[str, ...]
    devices: tuple[str, ...]
    toolkit: str
    compiler: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name of its folder in the cache."""
        digest = hashlib.sha256(json.dumps(vars(self)).encode()).hexdigest()[:12]
        return f"{PACKAGE}-{self.version}-{self.accelerator}-{self.platform}-{digest}"


def recipe(machine: Machine, choice: Choice, lock: Path) -> Recipe:
    """The recipe for this machine. Starts no other program, so that it may be asked for at every start."""
    chosen = choice.chosen
    toolkit = ""
    if chosen.toolkit is not None:
        real = chosen.toolkit.resolve()
        toolkit = f"{real} {real.stat().st_size} {real.stat().st_mtime_ns}"
    own = tuple(shlex.split(machine.environ.get("CMAKE_ARGS", "")))
    return Recipe(
        version=pins(lock)[PACKAGE],
        accelerator=chosen.name,
        cmake_args=("-DLLAVA_BUILD=OFF", *chosen.cmake_args, *own),
        platform=machine.platform,
        cpu_features=machine.cpu_features(),
        devices=_devices(machine) if chosen.name in ("cuda", "rocm") else (),
        toolkit=toolkit,
        compiler=tuple(
            f"{name}={machine.environ[name]}" for name in _COMPILER_VARIABLES if name in machine.environ
        ),
    )


def _devices(machine: Machine) -> tuple[str, ...]:
    """What the drivers say of the GPUs: device code is built for those that are here."""
    lines: set[str] = set()
    for pattern, word in (
        ("proc/driver/nvidia/gpus/*/information", "Model"),
        ("sys/class/kfd/kfd/topology/nodes/*/properties", "gfx_target_version"),
    ):
        for path in machine.root.glob(pattern):
            text = path.read_text(errors="replace")
            lines.update(" ".join(line.split()) for line in text.splitlines() if line.startswith(word))
    return tuple(sorted(lines))


def cache_folder(machine: Machine, venv: Path) -> Path:
    """Where wheels are kept: outside the checkout, or in the environment when there is no home to write to.

    Raises SetupError when the folder that MESHLLM_WHEEL_CACHE names cannot be written.
    """
    environ = machine.environ
    if explicit := environ.get(CACHE_VARIABLE):
        folder = Path(explicit).expanduser().absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"{CACHE_VARIABLE}={explicit} cannot be made: {error.strerror}.",
                "name a folder that you own.",
            ) from error
        return folder
    if home := environ.get("MESHLLM_HOME"):
        folder = Path(home).expanduser().absolute() / "cache" / "wheels"
    else:
        base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
        folder = Path(base).absolute() / "meshllm" / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        say(f"{folder} cannot be made ({error.strerror}); the built wheel is kept in {venv / 'wheels'}.")
        folder = venv / "wheels"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def obtain(
    machine: Machine, choice: Choice, made: Recipe, *, cache: Path, python: Path, locks: Path
) -> Built:
    """The wheel for this recipe: the kept one, or one built now.

    Raises SetupError when a compiler is missing, the disk is too small or the build fails.
    """
    folder = cache / made.key
    with locked(cache / f"{made.key}.lock", "the same wheel of llama.cpp"):
        kept = _kept(folder)
        if kept is not None:
            say(f"  reused the wheel built earlier for {choice.chosen.title}: {kept}")
            return Built(kept, True)
        _require_compiler(machine)
        require_space(cache, _BUILD_BYTES.get(made.accelerator, _BUILD_BYTES_GPU), "Compiling llama.cpp")
        # A fixed name, safe under the lock: what a killed build left behind goes now.
        work = cache / f".build-{made.key}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            _build(machine, choice, made, work, cache / f"{made.key}.log", python, locks)
            shutil.rmtree(folder, ignore_errors=True)
            (work / "wheel").rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        built = _kept(folder)
        if built is None:
            raise SetupError(f"The build left no wheel in {folder}.", "run this again.")
        return Built(built, False)


def forget(cache: Path, made: Recipe) -> None:
    """Drops a kept wheel that turned out not to work."""
    shutil.rmtree(cache / made.key, ignore_errors=True)


def _kept(folder: Path) -> Path | None:
    """The wheel in a cache folder, if its bytes are those that were built."""
    try:
        facts = json.loads((folder / "build.json").read_text())
        wheel = folder / Path(facts["wheel"]).name
        return wheel if _sha256(wheel) == facts["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _build(
    machine: Machine, choice: Choice, made: Recipe, work: Path, log: Path, python: Path, locks: Path
) -> None:
    """Builds into work/wheel; the log stays."""
    log.write_bytes(b"")
    (work / "tmp").mkdir()
    environ = {
        **build_tools(machine, work / "tools", python, locks / "build.lock", log, names=ENGINE_BUILDERS),
        **choice.chosen.environ,
        "TMPDIR": str(work / "tmp"),
        "CMAKE_ARGS": shlex.join(made.cmake_args),
    }
    jobs = max(1, min(machine.processors(), machine.memory_available() // _BYTES_PER_JOB))
    environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(jobs))
    say(f"  building {PACKAGE} {made.version} from its source package for {choice.chosen.title}, once;")
    say(f"  CMAKE_ARGS={environ['CMAKE_ARGS']}, {environ['CMAKE_BUILD_PARALLEL_LEVEL']} jobs, log: {log}")
    began = time.monotonic()
    # No pip cache: pip would take a wheel that was built with other CMAKE_ARGS for the same one.
    code = run_logged(
        [
            *(str(python), "-m", "pip", "wheel", "--verbose", "--no-cache-dir", "--no-deps"),
            *("--no-build-isolation", "--no-binary", PACKAGE, "--require-hashes"),
            *("--requirement", str(locks / f"{PACKAGE}.lock"), "--wheel-dir", str(work / "wheel")),
        ],
        log=log,
        environ=environ,
        waiting="building llama.cpp",
    )
    if code != 0:
        raise _build_failure(choice, log)
    wheel = next((work / "wheel").glob("*.whl"))
    facts = {"wheel": wheel.name, "sha256": _sha256(wheel), "seconds": round(time.monotonic() - began)}
    (work / "wheel" / "build.json").write_text(json.dumps(facts | {"recipe": vars(made)}, indent=1) + "\n")
    say(f"  built in {duration(time.monotonic() - began)}, {wheel.stat().st_size / 1e6:.0f} MB")


def _build_failure(choice: Choice, log: Path) -> SetupError:
    title = choice.chosen.title
    if choice.chosen.name == "cpu":
        advice = f"read {log} from its first line with `error:`; then run this again."
    else:
        advice = (
            f"mend what the log names ({log}) and run this again, or do without the accelerator:\n"
            f"        {OVERRIDE}=cpu sh installers/run.sh"
        )
    return SetupError(
        f"BUILDING llama.cpp FOR {title.upper()} FAILED. Nothing was installed in its place.\n"
        f"The last lines of {log}:\n{log_tail(log, 25)}",
        advice,
    )


def _require_compiler(machine: Machine) -> None:
    for variable, names, what in (
        ("CC", ("cc", "gcc", "clang"), "C"),
        ("CXX", ("c++", "g++", "clang++"), "C++"),
    ):
        named = shlex.split(machine.environ.get(variable, ""))
        if not any(machine.tool(name) for name in (named[:1] or names)):
            how = install_command(
                machine,
                "g++ cmake",
                otherwise="install a C and C++ compiler (on a Mac: xcode-select --install)",
            )
            looked = named[0] if named else ", ".join(names)
            raise SetupError(
                f"There is no {what} compiler (looked for {looked}); llama.cpp is built from source.",
                f"{how}; then run this again.",
            )
