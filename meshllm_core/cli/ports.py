"""Whether a port could be listened on, found out before anything is started."""

import socket


def can_bind(host: str, port: int) -> bool:
    """True when nobody listens there and this user may."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
