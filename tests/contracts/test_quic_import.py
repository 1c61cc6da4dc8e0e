"""One package speaks QUIC. Everything else sees links and channels, and lives without aioquic."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contracts import tree

QUIC = "meshllm_core/transport/quic/"


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _speaks_quic(path: Path) -> bool:
    return any(module.split(".")[0] == "aioquic" for module in _imported(tree.parsed(path)))


def test_only_one_package_imports_aioquic() -> None:
    speaking = [tree.name(path) for path in tree.sources(*tree.PRODUCT) if _speaks_quic(path)]
    assert speaking, "the test no longer recognises how it is imported"
    assert not [path for path in speaking if not path.startswith(QUIC)]


def test_what_is_private_in_aioquic_is_touched_in_one_file() -> None:
    """`_streams`, `_state` and the like belong to aioquic; names of the project's own do not count."""
    names = {"_streams", "_state", "_loss", "_close_event", "_local_max_data", "_buffer", "_rtt_smoothed"}
    found = [
        f"{tree.name(path)}: {node.attr}"
        for path in tree.sources("meshllm_core")
        if tree.name(path).startswith(QUIC) and path.name != "private.py"
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) != "self"
    ]
    assert not found
