"""A type for each kind of identifier, so that one is never passed for another."""

from typing import NewType

ModelId = NewType("ModelId", str)
"""The public name of a served model: the value of `model` in a request."""

RequestId = NewType("RequestId", str)
"""One request's name on this node; also its `x-request-id`."""

Sequence = NewType("Sequence", int)
"""Index of an event in a node's log; grows by one with each event."""
