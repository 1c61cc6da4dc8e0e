"""A node's answer -> the error of our own tree that it names, so that exit codes are the same anywhere."""

from typing import Any

import msgspec

from meshllm_core.errors import MeshError, NodeError, NodeNotRunning, RequestError

_START = "Start one with `meshllm serve`, or see `meshllm doctor`."


def error_from(body: bytes, status: int, url: str) -> MeshError:
    """The error that an answer's body (OpenAI's shape) and status stand for."""
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        found = document["error"]
        message, code, param = str(found["message"]), found.get("code"), found.get("param")
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, RecursionError):
        return NodeError(f"{url} answered {status} without saying why.", hint="Is it a meshllm node?")
    error = _class_of(code, status)(message)
    error.param = param if isinstance(param, str) else None
    return error


def unreachable(url: str, error: Exception) -> NodeError:
    """The error for a connection that failed, from the HTTP library's own."""
    base = "/".join(url.split("/")[:3])
    kind = type(error).__name__
    if "Connect" in kind:
        return NodeNotRunning(f"No node answers at {base}.", hint=_START)
    if "Timeout" in kind:
        return NodeNotRunning(f"The node at {base} did not answer in time.", hint="See `meshllm logs`.")
    return NodeNotRunning(f"The connection to {base} broke ({kind}).", hint="See `meshllm logs`.")


def unreadable(url: str) -> NodeError:
    """The error for an answer that is far too large to be a node's."""
    return NodeError(f"The answer of {url} is too large.", hint="Is it a meshllm node?")


def _class_of(code: object, status: int) -> type[MeshError]:
    """The class with that code. Of several the last in the tree whose HTTP status fits: a model that is not
    found is then one that the node does not serve, for what the hub lacks is told by an event.
    """
    named = [kind for kind in _tree(MeshError) if kind.code == code]
    fitting = [kind for kind in named if kind.http_status == status]
    return next(reversed(fitting or named), RequestError if status < 500 else NodeError)


def _tree(root: type[MeshError]) -> list[type[MeshError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in _tree(child))]
