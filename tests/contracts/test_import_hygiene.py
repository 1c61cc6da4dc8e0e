"""What an import drags in, seen in a fresh interpreter: the reason why the first paint is quick."""

import subprocess
import sys

import pytest

from tests.contracts import tree

USER_INTERFACE = {"textual", "rich", "typer"}
SERVER = {"fastapi", "starlette", "uvicorn", "sse_starlette"}
ENGINE = {"llama_cpp", "numpy", "gguf"}
HUB = {"huggingface_hub", "fsspec", "requests"}
VALIDATION = {"pydantic", "jinja2"}
HEAVY = USER_INTERFACE | SERVER | ENGINE | HUB | VALIDATION

FORBIDDEN = {
    "meshllm_core": HEAVY | {"httpx", "msgspec"},
    "meshllm_core.errors": HEAVY | {"httpx", "msgspec"},
    "meshllm_core.ids": HEAVY | {"httpx", "msgspec"},
    "meshllm_core.paths": HEAVY | {"httpx", "msgspec"},
    "meshllm_core.config": HEAVY | {"httpx"},
    "meshllm_core.state.events": HEAVY | {"httpx", "asyncio"},
    "meshllm_core.state.reduce": HEAVY | {"httpx", "asyncio"},
    "meshllm_core.state.snapshot": HEAVY | {"httpx", "asyncio"},
    "meshllm_core.engine.types": HEAVY | {"httpx", "asyncio"},
    "meshllm_core.serve.router": HEAVY | {"httpx"},
    "meshllm_core.models.gguf_file": USER_INTERFACE | SERVER | HUB | {"llama_cpp", "pydantic"},
    "meshllm_core.engine.supervisor": USER_INTERFACE | SERVER | HUB | ENGINE,
    "meshllm_core.api.client": HEAVY | {"httpx"},
    "meshllm_core.api.schema": HEAVY,
    "meshllm_core.node.runtime": USER_INTERFACE | {"llama_cpp"},
    "meshllm_core.cli.main": HEAVY | {"httpx"},
    "meshllm_tui": HEAVY | {"httpx"},
    "meshllm_tui.present": HEAVY | {"httpx"},
    "meshllm_tui.session": HEAVY,
    "meshllm_tui.app": SERVER | ENGINE | HUB | VALIDATION | {"typer", "httpx"},
}


@pytest.mark.parametrize(("module", "forbidden"), FORBIDDEN.items(), ids=FORBIDDEN.keys())
def test_import_drags_in_nothing_heavy(module: str, forbidden: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; sys.stdout.write(' '.join(sys.modules))"],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not {name.split(".")[0] for name in done.stdout.split()} & forbidden
