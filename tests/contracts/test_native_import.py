"""One package binds llama.cpp. Everything else must live without it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contracts import tree

ENGINE = "meshllm_core/engine/"
_IMPORTERS = {"import_module", "find_spec", "__import__"}


def _imported(module: ast.Module) -> Iterator[str]:
    """Names of modules that a file imports, by statement or by a literal name."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _IMPORTERS:
                yield str(node.args[0].value)


def _binds(path: Path) -> bool:
    return any(module.split(".")[0] == "llama_cpp" for module in _imported(tree.parsed(path)))


def test_only_the_engine_imports_llama_cpp() -> None:
    binding = [tree.name(path) for path in tree.sources() if tree.top(path) != "tests" and _binds(path)]
    assert binding, "the test no longer recognises how the engine imports it"
    assert not [path for path in binding if not path.startswith(ENGINE)]
