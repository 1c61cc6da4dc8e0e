"""The virtual environment and the record of what has been installed in it."""

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from installers.machine import Machine, install_command
from installers.report import SetupError

LOCK_NAME = ".meshllm-setup.lock"
_RECORD_NAME = ".meshllm-setup.json"
_MARKER = "pyvenv.cfg"


@dataclass(frozen=True)
class Environment:
    """A virtual environment of our own. `record` maps a step to the key it was last done for."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def log(self) -> Path:
        """What the last set-up's commands said."""
        return self.folder / "meshllm-setup.log"

    def record(self) -> dict[str, str]:
        """Steps done; empty when there are none or the record cannot be read."""
        try:
            data = json.loads((self.folder / _RECORD_NAME).read_text())
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {}

    def write_record(self, record: Mapping[str, str]) -> None:
        """Replaces the record in one move, so that a reader sees the old one or the new one."""
        temporary = self.folder / f"{_RECORD_NAME}.{os.getpid()}"
        temporary.write_text(json.dumps(dict(record), indent=1) + "\n")
        temporary.replace(self.folder / _RECORD_NAME)

    def prepare(self) -> None:
        """Makes the folder. Raises SetupError when it is somebody else's or cannot be made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            foreign = not self._is_ours() and any(entry.name != LOCK_NAME for entry in self.folder.iterdir())
        except OSError as error:
            raise SetupError(
                f"The folder {self.folder} cannot be made or read: {error.strerror}.",
                "run this as the owner of that folder, or set MESHLLM_VENV to a folder of your own.",
            ) from error
        if foreign:
            raise SetupError(
                f"{self.folder} holds files and is not a virtual environment.",
                "set MESHLLM_VENV to a new or empty folder.",
            )

    def create(self, machine: Machine) -> None:
        """Makes the environment anew with the interpreter that runs this; other content goes."""
        for entry in self.folder.iterdir():
            if entry.name == LOCK_NAME:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        # The marker comes first, so that a set-up cut short here is known as ours the next time.
        (self.folder / _MARKER).write_text("")
        try:
            venv.EnvBuilder(symlinks=True, with_pip=True).create(self.folder)
        except subprocess.CalledProcessError as error:
            output = bytes(error.output or b"").decode(errors="replace").strip()[-1500:]
            how = install_command(machine, "python3-venv", otherwise="install Python's venv module")
            raise SetupError(
                f"Python could not put pip into {self.folder}:\n{output}", f"{how}; then run this again."
            ) from error

    def _is_ours(self) -> bool:
        return (self.folder / _MARKER).is_file()
