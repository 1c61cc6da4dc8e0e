"""Shared fixtures: nothing of the developer's own machine leaks into a test."""

import os

import pytest

_LEAKS = ("MESHLLM_", "HF_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An empty home of meshllm's own, and none of the caller's settings."""
    for name in list(os.environ):
        if name.startswith(_LEAKS) and name != "MESHLLM_TEST_MODEL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("MESHLLM_HOME", str(tmp_path_factory.mktemp("home")))
    # Nodes that tests start do not measure themselves: it would disturb what is measured of them.
    monkeypatch.setenv("MESHLLM_CALIBRATE", "false")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
