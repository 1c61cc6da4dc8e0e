"""How a recording looks. After a wanted change: `--snapshot-update`, and look at the pictures."""

from pathlib import Path

import pytest

from meshllm_tui.recording_file import open_recording
from meshllm_tui.replay import ReplayApp
from meshllm_tui.replay_client import ReplayClient
from tests.tui.page_pictures import Compare, page
from tests.tui.test_replay import Hand, frames, write


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_replay(snap_compare: Compare, size: tuple[int, int], tmp_path: Path) -> None:
    with open_recording(write(tmp_path / "a.jsonl", *frames())) as recording:
        app = ReplayApp(ReplayClient(recording, clock=Hand()))
        run = page("8", "right", "right", "space")
        assert snap_compare(app, terminal_size=size, run_before=run)
