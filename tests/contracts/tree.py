"""The files of the project: what git tracks or would track, or all of them where there is no git."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("meshllm_core", "meshllm_tui")


@cache
def files() -> tuple[Path, ...]:
    """All files, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
        return tuple(sorted(path for name in names if (path := ROOT / name).is_file()))
    return tuple(sorted(_walk(ROOT)))


def _walk(folder: Path) -> Iterator[Path]:
    """Files of an unpacked source archive; environments and caches stay out."""
    for path in folder.iterdir():
        if path.is_dir():
            if path.name not in ("__pycache__", "dist", "build") and not (path / "pyvenv.cfg").exists():
                yield from _walk(path) if not path.name.startswith(".") or path.name == ".ci" else ()
        elif path.is_file() and path.suffix not in (".pyc",):
            yield path


def sources(*packages: str) -> tuple[Path, ...]:
    """Python files, of some top folders only if any are named."""
    return tuple(path for path in files() if path.suffix == ".py" and (not packages or top(path) in packages))


def top(path: Path) -> str:
    """The first part of a file's path in the project."""
    return path.relative_to(ROOT).parts[0]


def name(path: Path) -> str:
    """A file's path in the project, with forward slashes."""
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    """A Python file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def line_count(path: Path) -> int:
    """Lines of a text file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end."""
    return (node.end_lineno or node.lineno) - node.lineno + 1
