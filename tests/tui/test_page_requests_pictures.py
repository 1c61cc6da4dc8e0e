"""How the page of requests looks. After a wanted change: `--snapshot-update`, and look at the pictures."""

import pytest

from tests.tui.conftest import make_app
from tests.tui.page_pictures import Compare, page
from tests.tui.request_samples import busy
from tests.tui.samples import ScriptedClient


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_dark(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=busy()))
    assert snap_compare(app, terminal_size=size, run_before=page("8", "j", "j", "j", "j"))


def test_light(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=busy()), theme="meshllm-light")
    assert snap_compare(app, terminal_size=(120, 40), run_before=page("8", "end", "k", "tab", "tab", "j"))


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(ScriptedClient(state=busy()))
    assert snap_compare(app, terminal_size=(120, 40), run_before=page("8", "end", "k", "k"))


@pytest.mark.parametrize("size", [(60, 20), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_connect(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = make_app(ScriptedClient(state=busy()))
    assert snap_compare(app, terminal_size=size, run_before=page("8", "tab", "tab", "j", "j", "j"))


def test_phases(snap_compare: Compare) -> None:
    app = make_app(ScriptedClient(state=busy()))
    assert snap_compare(app, terminal_size=(80, 24), run_before=page("8", "end", "k", "enter"))
