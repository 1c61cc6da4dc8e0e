"""A type for each kind of identifier, so that one is never passed for another."""

from typing import NewType

ModelId = NewType("ModelId", str)
"""The public name of a served model: the value of `model` in a request."""

RequestId = NewType("RequestId", str)
"""One request's name on this node; also its `x-request-id`."""

Sequence = NewType("Sequence", int)
"""Index of an event in a node's log; grows by one with each event."""

NodeId = NewType("NodeId", bytes)
"""A node: its 32-byte Ed25519 public key. `hex()` is how people, events and JSON see it."""

MeshId = NewType("MeshId", bytes)
"""A mesh: the 32-byte public key of its root."""

ID_BYTES = 32
"""Length of a NodeId and of a MeshId."""


def short(identity: bytes) -> str:
    """The first 10 hex digits: enough to tell nodes of one mesh apart on a screen."""
    return identity.hex()[:10]
