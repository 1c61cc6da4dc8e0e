"""How this node's TCP sockets are set: small frames leave at once, and a path that is gone is noticed."""

import contextlib
import socket

PROBE_AFTER = 3
"""Seconds of silence after which the system asks whether the other machine is still there …"""
PROBES = 3
"""… and so many seconds, one probe each, that it may take to answer."""

# Each system has its own names for these; one that has none closes a dead connection later.
_PROBING = {
    "TCP_KEEPIDLE": PROBE_AFTER,
    "TCP_KEEPALIVE": PROBE_AFTER,
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": PROBES,
}


def prepare(used: socket.socket) -> None:
    """For a socket that was just made or accepted. Raises OSError.

    Whoever waits for an answer from a machine that changed its address would else wait for ever: nothing
    comes back on the old path, not even a refusal. A frozen process is another thing: its system answers.
    """
    used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    used.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBING.items():
        if (option := getattr(socket, name, None)) is not None:
            with contextlib.suppress(OSError):
                used.setsockopt(socket.IPPROTO_TCP, option, value)
