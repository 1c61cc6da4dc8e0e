"""Two machines in one: network namespaces that only a delayed link joins. All of it ends with the process.

Nothing gets a name in the system and nothing of its network changes: this thread moves into a namespace of
its own, which is machine A; B is another. Without root rights a user namespace gives the right to do so.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from meshllm_core.errors import NodeError

ADDRESS_A, ADDRESS_B = "10.213.77.1", "10.213.77.2"
_NETMASK = "255.255.255.0"
_DEVICE = b"lk0"
_NEW_NET, _NEW_USER = 0x4000_0000, 0x1000_0000
_TUNSETIFF, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x400454CA, 0x8914, 0x8916, 0x891C
_IFF_UP, _IFF_TUN, _IFF_NO_PI = 0x1, 0x1, 0x1000
_ECHOES = 25
_HINT = "It needs Linux, /dev/net/tun, and root rights or user namespaces."


@dataclass
class Link:
    """Machine A is where this thread is; B lies behind the link."""

    a: int
    """Descriptor of A's namespace."""
    b: int
    forwarder: "subprocess.Popen[str]"
    delay_ms: float = 0.0
    tcp: bool = True

    def set(self, delay_ms: float, *, tcp: bool = True) -> int:
        """From now on packets take `delay_ms` each way; without `tcp` those of TCP are lost.

        Returns how many packets of UDP it took so far. Raises NodeError when the link is gone.
        """
        order = f"{round(delay_ms * 1000)} {'all' if tcp else 'no-tcp'}\n"
        assert self.forwarder.stdin is not None and self.forwarder.stdout is not None
        try:
            self.forwarder.stdin.write(order)
            self.forwarder.stdin.flush()
            answer = self.forwarder.stdout.readline()
        except OSError:
            answer = ""
        if not answer.startswith("ok "):
            raise NodeError("The delayed link has ended by itself.", hint="Run it again.")
        self.delay_ms, self.tcp = delay_ms, tcp
        return int(answer.split()[1])

    def datagrams(self) -> int:
        """Packets of UDP that the link took so far, both ways. Raises NodeError when it is gone."""
        return self.set(self.delay_ms, tcp=self.tcp)

    @contextlib.contextmanager
    def inside_b(self) -> Iterator[None]:
        """Sockets and processes that are made meanwhile, by this thread, are those of machine B."""
        _enter(self.b)
        try:
            yield
        finally:
            _enter(self.a)

    def one_way_ms(self) -> float:
        """Half of the median round trip of a datagram, as the link is now. Raises NodeError."""
        trips = []
        with contextlib.ExitStack() as stack:
            near = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with self.inside_b():
                far = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            far.bind((ADDRESS_B, 0))
            near.settimeout(10)
            far.settimeout(10)
            near.connect(far.getsockname())
            for number in range(_ECHOES):
                began = time.perf_counter()
                near.send(bytes([number]))
                try:
                    body, source = far.recvfrom(16)
                    far.sendto(body, source)
                    near.recv(16)
                except TimeoutError:
                    raise NodeError("The delayed link carries nothing.", hint=_HINT) from None
                trips.append(time.perf_counter() - began)
        return median(trips) * 500


@contextlib.contextmanager
def delayed_link() -> Iterator[Link]:
    """Two machines; this thread is on A until the end. Raises NodeError where that is not allowed."""
    with contextlib.ExitStack() as stack:
        if not sys.platform.startswith("linux"):
            raise NodeError("Delayed links can only be made on Linux.", hint=_HINT)
        home = _namespace(stack)
        try:
            # In a user namespace of our own there is no way back; the process ends soon.
            user = os.geteuid() != 0
            _new_network(user=user)
            if not user:
                stack.callback(_enter, home)
            a, tun_a = _namespace(stack), _machine(stack, ADDRESS_A)
            _new_network(user=False)
            b, tun_b = _namespace(stack), _machine(stack, ADDRESS_B)
            _enter(a)
        except OSError as error:
            raise NodeError(
                f"No delayed link can be made here: {error.strerror or error}.", hint=_HINT
            ) from error
        forwarder = subprocess.Popen(
            [sys.executable, "-m", "meshllm_core.bench.split_forward", str(tun_a), str(tun_b)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(tun_a, tun_b),
        )
        stack.callback(_end, forwarder)
        link = Link(a, b, forwarder)
        link.set(0)
        yield link


def _end(forwarder: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        forwarder.communicate(timeout=5)
    forwarder.kill()
    forwarder.wait()


def _namespace(stack: contextlib.ExitStack) -> int:
    descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    stack.callback(os.close, descriptor)
    return descriptor


def _libc(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _enter(namespace: int) -> None:
    _libc("setns", namespace, _NEW_NET)


def _new_network(*, user: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    _libc("unshare", _NEW_NET | (_NEW_USER if user else 0))
    if user:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"0 {uid} 1")
        (own / "gid_map").write_text(f"0 {gid} 1")


def _machine(stack: contextlib.ExitStack, address: str) -> int:
    """Sets this namespace's interfaces up; the descriptor of its end of the link."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    stack.callback(os.close, tun)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", _DEVICE, _IFF_TUN | _IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, _NETMASK)):
            packed = struct.pack("16sHH4s8x", _DEVICE, socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, packed)
        for device in (b"lo", _DEVICE):
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", device, _IFF_UP))
    return tun
