"""A terminal that is recorded: tmux, seen through a pseudo-terminal whose output goes into an asciicast.

What a person would type is typed into tmux; what the person would see is what tmux sends to its terminal.
The line at the bottom says what is going on. The format is asciicast version 2: a line of JSON for the whole,
then one per piece of output, `[seconds, "o", text]`.
"""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path

FRAME_SECONDS = 1 / 20
"""Output within this time is one piece: fewer lines, and nothing that an eye would miss."""
IDLE_SECONDS = 6.0
"""Longer pauses are cut to this: they are this machine's, not the program's."""
LONGEST = 1 << 23
"""Characters that are kept. Nothing is recorded after them."""
_QUERIES = re.compile(r"\x1b\[[>=]?[0-9;]*[cqn]|\x1b\][0-9;]*\?(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*\$p|\x1b\[18t")
"""Questions of tmux to its terminal: played back, the terminal's answers would be typed at the shell."""
_COLOURS = re.compile(r"(\x1b\[[0-9;]+)m\x1b\[([0-9;]+m)")
_SETTINGS = """
set -g default-terminal tmux-256color
set -ga terminal-features ",xterm-256color:RGB"
set -g escape-time 0
set -g status-interval 0
set -g status-left-length 200
set -g status-right ""
set -g window-status-format ""
set -g window-status-current-format ""
set -g status-style "bg=#2b3a55,fg=#ffffff"
set -g default-shell /bin/sh
"""


class Missing(Exception):
    """Something did not come to the screen in time."""


class RecordedTerminal:
    """Use as a context manager; `write` the recording after it."""

    def __init__(self, folder: Path, columns: int, rows: int, environment: Mapping[str, str]) -> None:
        self._socket = folder / "tmux.socket"
        self._settings = folder / "tmux.conf"
        self._settings.write_text(_SETTINGS)
        self._size = (columns, rows)
        self._environment = {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._pieces: list[tuple[float, str, str]] = []
        self._kept = 0
        self._began = time.monotonic()
        self._stop = threading.Event()

    def __enter__(self) -> "RecordedTerminal":
        columns, rows = self._size
        shell = "PS1='$ ' exec sh"
        self._tmux("-f", str(self._settings), "new-session", "-d", "-x", str(columns), "-y", str(rows), shell)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._client = subprocess.Popen(
            ["tmux", "-S", str(self._socket), "attach"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._environment,
            start_new_session=True,
        )
        os.close(slave)
        self._began = time.monotonic()
        self._reader = threading.Thread(target=self._read, name="cast")
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], check=False, capture_output=True)
        self._client.wait(10)
        self._stop.set()
        self._reader.join(10)
        os.close(self._master)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=20, env=self._environment
        )
        return done.stdout

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while not self._stop.is_set():
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                # Linux says so when the client has closed its side.
                return
            if data and self._kept < LONGEST:
                text = decoder.decode(data)
                self._kept += len(text)
                self._pieces.append((time.monotonic() - self._began, "o", text))

    def caption(self, words: str) -> None:
        """Say at the bottom, and as a chapter of the recording, what happens now."""
        self._tmux("set", "-g", "status-left", f" {words}")
        self._pieces.append((time.monotonic() - self._began, "m", words))

    def below(self, rows: int, prompt: str, environment: Mapping[str, str]) -> None:
        """Open a second terminal below the first, that of another machine; it has the keyboard."""
        variables = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        home = environment["HOME"]
        self._tmux(
            *("split-window", "-v", "-l", str(rows), "-c", home, *variables, f"PS1='{prompt}' exec sh")
        )

    def close_below(self) -> None:
        """Close the second terminal."""
        self._tmux("kill-pane", "-t", ":.1")

    def press(self, *keys: str, pause: float = 0.4) -> None:
        """Keys by their names in tmux, with a person's pauses after each."""
        for key in keys:
            self._tmux("send-keys", key)
            time.sleep(pause)

    def type(self, text: str, pause: float = 0.035) -> None:
        """Characters, one by one."""
        for character in text:
            self._tmux("send-keys", "-l", character)
            time.sleep(pause)

    def text(self) -> str:
        """What the terminal with the keyboard shows."""
        return self._tmux("capture-pane", "-p")

    def wait(self, *words: str, seconds: float = 30.0, gone: bool = False) -> None:
        """Wait until all the words are on the screen, or none is. Raises Missing with what is there."""
        end = time.monotonic() + seconds
        while True:
            shown = self.text()
            if all((each in shown) is not gone for each in words):
                return
            if time.monotonic() > end:
                raise Missing(f"after {seconds:.0f} s, wanted {'not ' * gone}{words}:\n{shown}")
            time.sleep(0.1)

    def write(self, path: Path, title: str) -> tuple[float, int]:
        """Write the recording; its seconds and bytes."""
        columns, rows = self._size
        head = {
            "version": 2,
            "width": columns,
            "height": rows,
            "title": title,
            "env": {"TERM": "xterm-256color"},
        }
        lines = [head, *self._timed()]
        path.write_text(
            "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines),
            encoding="utf-8",
        )
        last = lines[-1]
        return (float(last[0]) if isinstance(last, list) else 0.0), path.stat().st_size

    def _timed(self) -> list[list[float | str]]:
        """The pieces with long pauses cut; near ones joined; without questions to the terminal."""
        joined: list[list[float | str]] = []
        shift = before = 0.0
        for at, kind, text in sorted(self._pieces, key=lambda piece: piece[0]):
            shift += max(0.0, at - before - IDLE_SECONDS)
            before, shown = at, round(at - shift, 2)
            last = joined[-1] if joined else None
            if last and kind == last[1] == "o" and shown - float(last[0]) < FRAME_SECONDS:
                last[2] = str(last[2]) + text
            else:
                joined.append([shown, kind, text])
        return [[at, kind, compact(str(text))] for at, kind, text in joined]


def compact(text: str) -> str:
    """The same on a screen, in fewer characters; questions to the terminal left out.

    Colours that follow each other become one sequence. Going back to the usual character set says nothing
    where no other is used.
    """
    text = _QUERIES.sub("", text)
    if "\x1b(0" not in text:
        text = text.replace("\x1b(B", "")
    text = text.replace("\x1b[m", "\x1b[0m")
    while (shorter := _COLOURS.sub(r"\1;\2", text)) != text:
        text = shorter
    return text
