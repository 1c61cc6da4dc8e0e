"""What the installers may look at of this computer: programs, files, processor, memory."""

import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The instruction sets that a compiler makes use of under -march=native. Other flags come and go with
# kernel updates and would only cause needless builds.
_X86_FEATURES = re.compile(
    r"s?sse\w*|pni|avx\w*|amx\w*|bmi\d|fma\w*|f16c|abm|popcnt|movbe|gfni|v?aes|v?pclmulqdq|sha_ni|adx|cx16|lahf_lm"
)


@dataclass(frozen=True)
class Machine:
    """A computer. A test lays out one of its own below `root`."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")
    system: str = field(default_factory=platform.system)
    """Linux or Darwin."""
    architecture: str = field(default_factory=platform.machine)

    def tool(self, name: str, *folders: str) -> Path | None:
        """A program on PATH, or else in one of the absolute `folders`."""
        found = shutil.which(name, path=self.environ.get("PATH", os.defpath))
        if found is None:
            places = [str(self.below(folder)) for folder in folders if folder]
            found = shutil.which(name, path=os.pathsep.join(places)) if places else None
        return Path(found) if found else None

    def below(self, path: str) -> Path:
        """An absolute path of this computer."""
        return self.root / path.lstrip("/")

    def has(self, *patterns: str) -> bool:
        """Whether a file or folder matches one of the absolute patterns."""
        return any(True for pattern in patterns for _ in self.root.glob(pattern.lstrip("/")))

    @property
    def platform(self) -> str:
        """Platform tag and C library, for example linux_x86_64-glibc2.36."""
        tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        return tag + "".join(("-", *platform.libc_ver())) if any(platform.libc_ver()) else tag

    def cpu_features(self) -> tuple[str, ...]:
        """The instruction sets that code built for this very processor may use."""
        try:
            text = self.below("/proc/cpuinfo").read_text(errors="replace")
        except OSError:
            return (platform.processor() or self.architecture,)
        match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
        words = match.group(1).split() if match else [self.architecture]
        if self.architecture in ("x86_64", "AMD64", "i686"):
            words = [word for word in words if _X86_FEATURES.fullmatch(word)]
        return tuple(sorted(set(words)))

    def memory_available(self) -> int:
        """Bytes that new processes can have, about."""
        try:
            text = self.below("/proc/meminfo").read_text()
        except OSError:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        match = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
        return int(match.group(1)) * 1024 if match else 2 * 1024**3

    def processors(self) -> int:
        """Processors that this process may run on."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def install_command(machine: Machine, debian: str, *, otherwise: str) -> str:
    """How to install system packages here: the exact line on Debian and its kin, else in words."""
    if machine.tool("apt-get") is None:
        return otherwise
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {debian}"
