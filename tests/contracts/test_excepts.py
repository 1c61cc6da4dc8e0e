"""Broad excepts only at a process edge; few exemptions from the type checker."""

import ast
import re
from pathlib import Path

import pytest

from tests.contracts import tree

PROCESS_EDGES: dict[str, int] = {}
"""File to the number of broad handlers that end an error there, because nothing is above them."""

TYPE_IGNORES = 12
"""As many as the product may have in all."""

_BROAD = {"Exception", "BaseException"}
_UNREADABLE = {"DecodeError", "MsgspecError", "TOMLDecodeError"}
"""Of the libraries that read JSON, MessagePack and TOML; too deep a nesting is another error."""


def _names(node: ast.expr | None) -> set[str]:
    if node is None:
        return {"BaseException"}
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {part.id if isinstance(part, ast.Name) else getattr(part, "attr", "") for part in parts}


def _raises_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler only cleans up: its last statement passes the error on."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _broad_handlers(path: Path) -> list[int]:
    handlers = (node for node in ast.walk(tree.parsed(path)) if isinstance(node, ast.ExceptHandler))
    return [h.lineno for h in handlers if _names(h.type) & _BROAD and not _raises_on(h)]


def test_broad_excepts_are_at_process_edges() -> None:
    found = {
        tree.name(path): lines
        for path in tree.sources(*tree.PRODUCT, "installers")
        if (lines := _broad_handlers(path))
    }
    assert {path: len(lines) for path, lines in found.items()} == PROCESS_EDGES, found


@pytest.mark.parametrize(
    ("text", "broad"),
    [
        ("except Exception:\n    pass", 1),
        ("except:\n    pass", 1),
        ("except (ValueError, builtins.BaseException) as error:\n    print(error)", 1),
        ("except BaseException:\n    close()\n    raise", 0),
        ("except Exception as error:\n    raise ValueError from error", 1),
        ("except OSError:\n    pass", 0),
    ],
)
def test_broad_excepts_are_recognised(tmp_path: Path, text: str, broad: int) -> None:
    (tmp_path / "a.py").write_text(f"try:\n    run()\n{text}\n")
    assert len(_broad_handlers(tmp_path / "a.py")) == broad


def _shallow_handlers(path: Path) -> list[int]:
    """Lines where text that cannot be read is caught, and text that nests too deep to be read is not."""
    found = []
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Try):
            caught = set[str]().union(*(_names(handler.type) for handler in node.handlers))
            if caught & _UNREADABLE and "RecursionError" not in caught:
                found.append(node.lineno)
    return found


def test_what_cannot_be_read_may_also_nest_too_deep() -> None:
    found = {
        tree.name(path): lines
        for path in tree.sources(*tree.PRODUCT, "installers")
        if (lines := _shallow_handlers(path))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("handlers", "count"),
    [
        ("except msgspec.DecodeError:\n    pass", 1),
        ("except (OSError, tomllib.TOMLDecodeError) as error:\n    raise", 1),
        ("except (msgspec.MsgspecError, RecursionError):\n    pass", 0),
        ("except msgspec.DecodeError:\n    pass\nexcept RecursionError:\n    pass", 0),
        ("except OSError:\n    pass", 0),
    ],
)
def test_shallow_handlers_are_recognised(tmp_path: Path, handlers: str, count: int) -> None:
    (tmp_path / "a.py").write_text(f"try:\n    run()\n{handlers}\n")
    assert len(_shallow_handlers(tmp_path / "a.py")) == count


def test_type_ignores_stay_within_their_budget() -> None:
    ignore = re.compile(r"#\s*type:\s*ignore")
    found = [
        f"{tree.name(path)}:{number}"
        for path in tree.sources(*tree.PRODUCT, "installers")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ignore.search(line)
    ]
    assert len(found) <= TYPE_IGNORES, found
