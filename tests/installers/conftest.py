"""A computer laid out in a folder: the installers see its programs, devices and files, and no others."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from installers.machine import Machine


@dataclass
class Computer:
    """Files below `root`, programs in `root`/usr/bin, and environment variables."""

    root: Path
    system: str = "Linux"
    architecture: str = "x86_64"
    environ: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, script: str = "exit 0", folder: str = "usr/bin") -> Path:
        """Adds a program; `script` is what it does, in sh."""
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def file(self, path: str, text: str = "") -> Path:
        """Adds a file, for example dev/kfd."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def machine(self) -> Machine:
        """What the installers get to see."""
        environ = {"PATH": str(self.root / "usr/bin"), **self.environ}
        return Machine(environ=environ, root=self.root, system=self.system, architecture=self.architecture)


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    """A computer with a C and C++ compiler and nothing else."""
    made = Computer(tmp_path / "computer")
    made.program("cc")
    made.program("c++")
    made.file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse4_2 avx2 fma rdtscp\n")
    made.file("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    return made


@pytest.fixture
def real_tools(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder for PATH that holds links to some of this system's own programs."""

    def link(*names: str) -> Path:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        for name in names:
            found = next(
                Path(place) / name
                for place in os.defpath.split(":")
                if place and (Path(place) / name).exists()
            )
            (folder / name).symlink_to(found)
        return folder

    return link
