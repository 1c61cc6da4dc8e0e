"""The desktop's keyring, where there is a real one. It may ask a person for a password, so it may block."""

import os
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, TypeVar

from meshllm_core.errors import IdentityError, describe
from meshllm_core.ids import NodeId

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

T = TypeVar("T")

SERVICE = "meshllm"
"""The name of the entry; its user is the node's id, so that several homes do not share one."""
SECONDS = 2.0
"""So long the keyring may take to answer."""


def store(node: NodeId, secret: str) -> None:
    """Puts `secret` into the keyring and reads it back. Raises IdentityError."""

    def put(backend: "KeyringBackend") -> str | None:
        backend.set_password(SERVICE, node.hex(), secret)
        return backend.get_password(SERVICE, node.hex())

    if _ask(put) != secret:
        raise IdentityError("The keyring did not keep the node's key.")


def fetch(node: NodeId) -> str | None:
    """The secret of this node; None when the keyring has none. Raises IdentityError when it cannot say."""
    return _ask(lambda backend: backend.get_password(SERVICE, node.hex()))


def remove(node: NodeId) -> None:
    """Takes the secret of this node out. Raises IdentityError."""
    _ask(lambda backend: backend.delete_password(SERVICE, node.hex()))


def _ask(question: "Callable[[KeyringBackend], T]") -> T:
    """Asks in a thread that nobody waits for longer than SECONDS; it is left behind if it blocks."""
    errors: list[BaseException] = []
    pool = ThreadPool(1)
    answer = pool.apply_async(lambda: question(_backend()), error_callback=errors.append)
    pool.close()
    answer.wait(SECONDS)
    if not answer.ready():
        raise IdentityError(f"The keyring did not answer within {SECONDS:.0f} s.", hint="Is it locked?")
    if errors:
        raise IdentityError(f"The keyring cannot be used: {describe(errors[0])}.")
    return answer.get()


def _backend() -> "KeyringBackend":
    """The best backend that a desktop provides. Others keep secrets in plain files, or nowhere."""
    if os.environ.get("MESHLLM_HOME"):
        raise IdentityError("it is not asked while MESHLLM_HOME keeps everything in one folder")
    import keyring
    from keyring.backends.chainer import ChainerBackend
    from keyring.core import recommended

    backend = keyring.get_keyring()
    choices = list(backend.backends) if isinstance(backend, ChainerBackend) else [backend]
    for choice in choices:
        if recommended(choice):
            return choice
    raise IdentityError("there is none on this machine")
