"""Who answers what clients ask: one entry for each of api.questions.QUESTIONS.

Each answering module is imported when it is first asked: a node's start does not wait for all of them.
"""

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from meshllm_core.config import Settings
from meshllm_core.node.hosts import Hosts
from meshllm_core.node.store import EventStore
from meshllm_core.paths import Paths

if TYPE_CHECKING:
    from meshllm_core.node.downloads import Downloads
    from meshllm_core.node.mesh import NodeMesh

Answer = Callable[[Any], Awaitable[msgspec.Struct]]
"""Takes a question's arguments, gives its answer. Raises MeshError."""


@dataclass(frozen=True)
class NodeParts:
    """What an answer can be made from."""

    settings: Settings
    paths: Paths
    store: EventStore
    hosts: Hosts
    mesh: "NodeMesh"
    downloads: "Downloads"


@dataclass
class Keeper:
    """For an answering module that keeps something from one question to the next."""

    parts: NodeParts
    made: object = None


def node_answers(parts: NodeParts) -> Mapping[str, Answer]:
    """By the question's name."""
    planning = Keeper(parts)
    return {
        "certificates": _lazy("answer_certificates", "certificates", parts),
        "config": _lazy("answer_config", "config", parts),
        "library": _lazy("answer_models", "answer_library", parts),
        "catalog": _lazy("answer_models", "answer_catalog", parts),
        "hub/search": _lazy("answer_models", "answer_search", parts),
        "hub/models": _lazy("answer_models", "answer_repo", parts),
        "logs": _lazy("answer_logs", "answer_logs", parts.paths),
        "logs/read": _lazy("answer_logs", "answer_read_log", parts.paths),
        "plan": _lazy("answer_plan", "answer_plan", planning),
        "plan/models": _lazy("answer_plan", "answer_models", planning),
    }


def _lazy(module: str, function: str, parts: object) -> Answer:
    """An answering function of a module below meshllm_core.node, imported when it is first asked."""

    async def answer(arguments: msgspec.Struct) -> msgspec.Struct:
        found = getattr(importlib.import_module(f"meshllm_core.node.{module}"), function)
        answered: msgspec.Struct = await found(parts, arguments)
        return answered

    return answer
