"""`meshllm record` and `meshllm replay`, against a node that the test plays."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.paths import Paths
from meshllm_core.state import events as ev
from meshllm_core.state.recording import FILE_LIMIT
from meshllm_tui.recording_file import open_recording
from tests.api.manage.conftest import Node
from tests.cli.conftest import COMMAND, command, playing
from tests.tui.test_replay import frames, write

INVITE = "meshllm:abcd-efgh-ijkl-mnop-qrst"


def said(text: str) -> ev.NoticeLogged:
    return ev.NoticeLogged(at=4.0, level="info", source="mesh", text=text)


def size(file: Path) -> int:
    """Bytes of a file; 0 while there is none."""
    return file.stat().st_size if file.exists() else 0


async def begun(file: Path) -> None:
    """Waits until the snapshot is in the file."""
    async with asyncio.timeout(20):
        for _ in range(1000):
            if size(file) >= 500:
                return
            await asyncio.sleep(0.02)


def mode(file: Path) -> int:
    """Who may read it."""
    return stat.S_IMODE(file.stat().st_mode)


def put(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


async def recorded(node: Node, file: Path, *options: str) -> dict[str, object]:
    """Records while two things happen."""
    running = asyncio.create_task(command("record", str(file), "--seconds", "1.5", "--json", *options))
    await begun(file)
    node.backend.store.append(said("attic is here"))
    node.backend.store.append(said(f"token {INVITE} and Bearer abcdefghijkl"))
    result = await running
    assert result.code == 0, result.err
    document: dict[str, object] = result.document
    return document


async def test_what_happens_is_recorded_and_reads_back(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    told = await recorded(node, file)
    assert (told["events"], told["ended"], told["bytes"]) == (2, "the time is over", size(file))
    assert mode(file) == 0o600
    with open_recording(file) as recording:
        assert recording.index.events == 2
        assert recording.state_at(99).notices[-2].text == "attic is here"
        assert recording.state_at(99).models == node.backend.store.snapshot.models
    shown = await command("replay", str(file), "--json")
    assert shown.document["models"] == ["tiny"]
    assert (shown.document["events"], shown.document["machines"], shown.document["cut"]) == (2, 1, False)
    text = await command("replay", str(file))
    assert "2 events" in text.out and "no terminal" in text.err


async def test_secrets_are_never_in_it(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    await recorded(node, file)
    text = read(file)
    assert "abcd-efgh" not in text and "abcdefghijkl" not in text
    assert "attic" in text


async def test_redacted_it_names_nobody(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    told = await recorded(node, file, "--redact")
    text = read(file)
    assert told["redacted"] is True
    assert "attic" not in text and "machine-1 is here" in text
    assert (await command("replay", str(file), "--json")).document["redacted"] is True


async def test_a_file_that_is_there_is_kept(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    put(file, b"mine")
    refused = await command("record", str(file))
    assert (refused.code, read(file)) == (ExitCode.USAGE, "mine")
    assert "--force" in refused.err
    assert (await recorded(node, file, "--force"))["events"] == 2


async def test_without_a_node_nothing_is_written(tmp_path: Path) -> None:
    refused = await command("record", str(tmp_path / "a.jsonl"))
    assert refused.code == ExitCode.NODE
    assert size(tmp_path / "a.jsonl") == 0


async def test_ctrl_c_ends_it_well(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "record", str(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    await begun(file)
    node.backend.store.append(said("one"))
    await asyncio.sleep(0.3)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    assert re.search(r"1 event in 0 s, [\d,]+ bytes. It ended: stopped by Ctrl\+C\.", out.decode())
    with open_recording(file) as recording:
        assert (recording.index.events, recording.index.cut) == (1, False)


async def test_it_ends_with_the_node(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    async with playing(paths):
        running = asyncio.create_task(command("record", str(file), "--json"))
        await begun(file)
    result = await running
    assert result.code == 0, result.err
    assert str(result.document["ended"]).startswith("the node ended: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"{}\n", "line 1 is no header"),
        (b'{"meshllm_recording":1,"version":"0.1.0","at":1.0}\nnonsense\n', "line 2 is no event"),
        (os.urandom(4096), "line 1 is no header"),
    ],
)
async def test_bad_recordings_are_refused_with_their_line(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    put(file, content)
    refused = await command("replay", str(file), "--json")
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert words in refused.err and str(file) in refused.err


async def test_a_huge_file_is_refused_without_being_read_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "huge"
    put(file, b'{"meshllm_recording":1,"version":"0.1.0","at":1.0}\n')
    os.truncate(file, FILE_LIMIT * 100)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from meshllm_core.cli.main import main; main(sys.argv[1:])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", limited, "replay", str(file), "--json", stderr=subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, err = await process.communicate()
    assert (process.returncode, "line 2 is longer than 32 MiB" in err.decode()) == (ExitCode.USAGE, True)


def test_a_recording_is_json_lines(tmp_path: Path) -> None:
    for line in write(tmp_path / "a", *frames()).read_text(encoding="utf-8").splitlines():
        assert isinstance(json.loads(line), dict)
