"""An invite that a node gets at its start: from the flag, the environment or the file, in any form."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.cli import dashboard, serve
from meshllm_core.config import Settings
from meshllm_core.discovery import qr
from meshllm_core.discovery.token import compact
from meshllm_core.errors import ExitCode
from meshllm_core.node import runtime
from meshllm_core.paths import Paths
from tests.cli.conftest import Result
from tests.discovery.test_token import TOKEN


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of each node that was to run."""
    found: list[Settings] = []

    def run(settings: Settings, *_: object, **__: object) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(runtime, "run", run)
    return found


def given(form: str, folder: Path) -> str:
    """An invite in that form."""
    if form == "token":
        return TOKEN.lower().replace("-", " ")
    if form == "file":
        (folder / "invite.txt").write_text(f"Join with\n{TOKEN}\n")
        return str(folder / "invite.txt")
    (folder / "code.png").write_bytes(qr.png(qr.matrix(compact(TOKEN)), 6))
    return str(folder / "code.png")


@pytest.mark.parametrize("form", ["token", "file", "picture"])
@pytest.mark.parametrize("source", ["flag", "variable", "config"])
def test_every_form_is_read_from_every_source(
    meshllm: Callable[..., Result], started: list[Settings], tmp_path: Path, form: str, source: str
) -> None:
    invite = given(form, tmp_path)
    (tmp_path / "c.toml").write_text(f"join = '{invite}'\n" if source == "config" else "")
    result = meshllm(
        *("serve", "--headless", "--config", str(tmp_path / "c.toml")),
        *(("--join", invite) if source == "flag" else ()),
        **({"MESHLLM_JOIN": invite} if source == "variable" else {}),
    )
    assert (result.code, [settings.join for settings in started]) == (0, [TOKEN]), result.err
    assert TOKEN[9:30] not in result.out + result.err


def test_standard_input_is_read_for_a_dash(meshllm: Callable[..., Result], started: list[Settings]) -> None:
    assert meshllm("client", "--headless", "--join", "-", stdin=f"{TOKEN}\n").code == 0
    assert [(settings.join, settings.client) for settings in started] == [(TOKEN, True)]


@pytest.mark.parametrize("source", ["flag", "variable"])
@pytest.mark.parametrize(
    ("invite", "code"), [("nowhere/invite.txt", ExitCode.USAGE), ("hello", ExitCode.MESH)]
)
def test_what_is_no_invite_ends_the_start(
    meshllm: Callable[..., Result], started: list[Settings], source: str, invite: str, code: ExitCode
) -> None:
    flags = ("--join", invite) if source == "flag" else ()
    variables = {"MESHLLM_JOIN": invite} if source == "variable" else {}
    result = meshllm("serve", "--headless", *flags, **variables)
    assert (result.code, result.out, started) == (code, "", [])


def test_the_node_of_the_dashboard_gets_it_by_its_environment(
    meshllm: Callable[..., Result], paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], dict[str, str]]] = []

    def show(arguments: list[str], *, secrets: dict[str, str], **_: object) -> int:
        seen.append((arguments, secrets))
        return 0

    monkeypatch.setattr(dashboard, "has_screen", lambda: True)
    monkeypatch.setattr(dashboard, "dashboard", show)
    assert meshllm("serve", "--join", given("file", tmp_path), "--lanes", "2").code == 0
    assert seen == [(["--lanes", "2"], {"MESHLLM_JOIN": TOKEN})]
    assert serve._arguments({"join": TOKEN}, None) == []
