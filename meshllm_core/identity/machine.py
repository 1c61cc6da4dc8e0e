"""Which machine this is, in a form that tells nobody: to notice a home folder that was copied to another."""

import hashlib
import platform
import re
import subprocess
import sys
import uuid
from pathlib import Path

from meshllm_core.ids import NodeId

_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_FILE_BYTES = 256
_IOREG = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
_SECONDS = 2.0
_MULTICAST = 1 << 40
"""Set in what uuid.getnode draws by lot when it finds no network card."""


def fingerprint(node: NodeId, *, files: tuple[Path, ...] = _FILES) -> str:
    """The machine, hashed with the node's id: 32 hex digits that only that node can compare.

    `files` is where Linux keeps the machine's id.
    """
    machine = _from_files(files) or _from_system() or _from_network()
    return hashlib.blake2s(machine.encode(), key=node, digest_size=16, person=b"machine").hexdigest()


def _from_files(files: tuple[Path, ...]) -> str:
    for path in files:
        try:
            with path.open("rb") as file:
                text = file.read(_FILE_BYTES).decode("ascii", "replace").strip()
        except OSError:
            continue
        if re.fullmatch(r"[0-9a-f]{32}", text) and text.strip("0"):
            return text
    return ""


def _from_system() -> str:
    if sys.platform == "darwin":
        try:
            done = subprocess.run(_IOREG, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = re.search(r'"IOPlatformUUID" = "([0-9A-Fa-f-]{36})"', done.stdout)
        return found.group(1) if found else ""
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as folder:
                return str(winreg.QueryValueEx(folder, "MachineGuid")[0])
        except OSError:
            return ""
    return ""


def _from_network() -> str:
    card = uuid.getnode()
    return f"{platform.node()} {'' if card & _MULTICAST else f'{card:012x}'}"
