"""What clients may ask of the node: the same few verbs for dashboard, command line and curl."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from meshllm_core.api.questions import QUESTIONS, QuestionSpec
from meshllm_core.api.schema import ACTIONS, ActionSpec
from meshllm_core.errors import ModelUnknown, NodeError
from meshllm_core.ids import RequestId
from meshllm_core.node.answers import NodeParts, node_answers

if TYPE_CHECKING:
    from meshllm_core.node.certify_desk import CertifyDesk


class NodeBackend:
    """Implements api.manage.ManagementBackend."""

    def __init__(self, parts: NodeParts, stop: Callable[[str], None]) -> None:
        self.store = parts.store
        self._hosts = parts.hosts
        self._mesh = parts.mesh
        self._stop = stop
        self._answers = node_answers(parts)
        self._parts = parts
        self._certify: CertifyDesk | None = None

    @property
    def actions(self) -> Mapping[str, ActionSpec]:
        """What may be asked for."""
        return ACTIONS

    @property
    def questions(self) -> Mapping[str, QuestionSpec]:
        """What may be looked up."""
        return QUESTIONS

    async def ask(self, name: str, arguments: msgspec.Struct) -> msgspec.Struct:
        """Look it up. `arguments` are of the question's own type. Raises MeshError."""
        return await self._answers[name](arguments)

    async def act(self, name: str, arguments: dict[str, Any]) -> dict[str, object]:
        """Do it. `arguments` were checked against the action's schema. Raises MeshError."""
        match name:
            case "load" if self._mesh.settings.client:
                raise NodeError(
                    "This node is a client: it uses the mesh's models and serves none.",
                    hint="Start it with `meshllm serve` to serve models.",
                )
            case "load":
                model = self._hosts.load(
                    arguments["model"],
                    context_size=arguments.get("ctx_size"),
                    lanes=arguments.get("lanes"),
                    split=arguments.get("split"),
                    wire_dtype=arguments.get("wire_dtype"),
                    topology_lock=arguments.get("split_topology_lock"),
                )
                return {"model": model, "status": "requested"}
            case "download" | "pause_download" | "resume_download" | "cancel_download" | "delete_model":
                from meshllm_core.node.model_actions import act_on_models

                return await act_on_models(self._parts, name, arguments)
            case "unload":
                return {"model": await self._hosts.unload(arguments["model"]), "status": "unloaded"}
            case "cancel":
                request = arguments["request"]
                asked = RequestId(request)
                if not (self._hosts.cancel(asked) or self._mesh.inference.cancel(asked)):
                    raise ModelUnknown(
                        f"No running request has the id {request}.",
                        hint="`meshllm status` lists running requests.",
                        param="request",
                    )
                return {"request": request, "status": "cancelled"}
            case "stop":
                self._stop("asked by a client")
                return {"status": "stopping"}
            case "certify" | "cancel_certify":
                # Codecs, stage files and numpy: most nodes never measure.
                from meshllm_core.node import certify_desk

                if self._certify is None:
                    parts = self._parts
                    self._certify = certify_desk.CertifyDesk(
                        parts.settings, parts.paths, parts.store, parts.mesh.signing_key
                    )
                return await certify_desk.act(self._certify, name, arguments)
            case "configure":
                from meshllm_core.node.answer_config import configure

                done = await configure(self._parts, arguments["key"], arguments.get("value"))
                return msgspec.structs.asdict(done)
            case _:
                return await self._mesh.act(name, arguments)

    async def close(self) -> None:
        """The node ends, and with it what its actions began."""
        if self._certify is not None:
            await self._certify.close()
