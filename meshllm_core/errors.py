"""The whole exception tree. Each class carries the code, HTTP status and exit code it is mapped to.

MeshError
├── ConfigError            a key, flag or file of the configuration is wrong
├── ModelError
│   ├── ModelNotFound      no such file, repository, revision or catalogue name
│   ├── ModelFileInvalid   truncated, not GGUF, an unknown architecture
│   ├── ModelTooLarge      does not fit in the memory that is free
│   ├── CutRefused         the model cannot be divided there, or not at all
│   ├── DownloadFailed     the hub or the network said no
│   │   └── HubUnreachable no answer at all: offline, or no network
│   └── StorageError       disk full, cache read-only
├── EngineError
│   ├── EngineExited       the child process ended: signal, out of memory, bad file
│   └── EngineTimeout      the child did not answer in time
├── RequestError
│   ├── InvalidRequest     a field of the body is wrong; names it
│   │   ├── UnknownField        no such parameter; names the nearest
│   │   ├── UnsupportedField    valid OpenAI, not done here; never ignored
│   │   ├── UnsupportedFeature  the model that was asked for cannot do it
│   │   ├── ContextLengthExceeded
│   │   └── PayloadTooLarge
│   ├── ModelUnknown       no model of that name is served
│   ├── ModelNotReady      the model is known and still loading, or failed
│   ├── Overloaded         every lane and the queue are full; says when to come back
│   └── RequestCancelled
├── NodeError
│   ├── PortTaken
│   ├── NodeNotRunning
│   ├── NodeAlreadyRunning
│   ├── NotAuthorized      bearer token missing or wrong
│   ├── HostRefused        Host or Origin header is not this node's
│   └── IdentityError      the node's key cannot be read, written or is used by two machines
└── MeshNetworkError
    ├── NotInMesh          the node belongs to no mesh, or to another one
    ├── NotPermitted       this member may not do that: its certificate does not allow it
    ├── TokenInvalid       an invite that cannot be read: mistyped, cut, not one of ours
    ├── JoinRefused        the mesh said no: expired, used up, revoked, other mesh, version…
    ├── JoinFailed         no answer: address, reachability, clock, identity
    │   └── AlreadyInMesh  the node is in a mesh, or joins one just now
    ├── PeerUnreachable    no link to that node now
    ├── LinkClosed         the link or the channel ended while it was in use
    ├── WireError          bytes from another node that are not what they must be
    ├── ProofInvalid       a signature, certificate or record that does not hold
    └── DiscoveryError     mDNS or a Nostr relay cannot be used
"""

from meshllm_core.exit_codes import ExitCode as ExitCode


class MeshError(Exception):
    """Base of every error that meshllm raises on purpose.

    `message` says what failed and on what; `hint` says what to do next; `param` names the field
    of a request or the key of a configuration, where there is one.
    """

    code: str = "internal_error"
    error_type: str = "server_error"
    http_status: int = 500
    exit_code: ExitCode = ExitCode.FAILURE

    def __init__(self, message: str, *, hint: str = "", param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ConfigError(MeshError):
    """A key, a flag or the file of the configuration is wrong."""

    code = "config_invalid"
    exit_code = ExitCode.USAGE
    error_type = "invalid_request_error"
    http_status = 400


class ModelError(MeshError):
    """Something is wrong with a model's file or its source."""

    code = "model_error"
    exit_code = ExitCode.MODEL


class ModelNotFound(ModelError):
    """No such file, repository, revision or catalogue name."""

    code = "model_not_found"
    error_type = "invalid_request_error"
    http_status = 404


class ModelFileInvalid(ModelError):
    """The file is truncated, of another format, or of an architecture llama.cpp does not know."""

    code = "model_file_invalid"
    error_type = "invalid_request_error"
    http_status = 400


class ModelTooLarge(ModelError):
    """The model with its KV cache does not fit in the memory that is free."""

    code = "model_too_large"
    error_type = "invalid_request_error"
    http_status = 400


class CutRefused(ModelError):
    """The model cannot be divided into stages there, or not at all."""

    code, error_type, http_status = "cut_refused", "invalid_request_error", 400


class DownloadFailed(ModelError):
    """The hub or the network refused; the partial file is kept for the next try."""

    code = "download_failed"
    http_status = 502


class HubUnreachable(DownloadFailed):
    """The hub did not answer: no network, offline mode, or its address is wrong."""


class StorageError(ModelError):
    """The disk is full or the cache cannot be written."""

    code = "storage_error"
    http_status = 507


class EngineError(MeshError):
    """The engine process failed."""

    code = "engine_error"
    exit_code = ExitCode.ENGINE
    http_status = 503


class EngineExited(EngineError):
    """The engine process ended; `reason` is one of signal, out_of_memory, bad_file, exit."""

    code = "engine_exited"

    def __init__(
        self, message: str, *, reason: str = "exit", log_tail: tuple[str, ...] = (), hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.log_tail = log_tail


class EngineTimeout(EngineError):
    """The engine process did not answer in time."""

    code = "timeout"
    http_status = 504


class RequestError(MeshError):
    """A request to /v1 cannot be answered."""

    code = "invalid_value"
    error_type = "invalid_request_error"
    http_status = 400
    exit_code = ExitCode.REQUEST


class InvalidRequest(RequestError):
    """A field of the body is missing, of the wrong type or out of range; `param` names it."""


class UnsupportedField(InvalidRequest):
    """A field that OpenAI knows and this node does not do: refused, never ignored."""

    code = "unsupported_parameter"


class UnknownField(InvalidRequest):
    """Neither OpenAI nor this node knows a parameter of that name."""

    code = "unknown_parameter"


class UnsupportedFeature(InvalidRequest):
    """The model that was asked for cannot do this: images, embeddings, chat."""

    code = "unsupported_model_feature"


class ContextLengthExceeded(InvalidRequest):
    """Prompt plus answer do not fit in the model's context."""

    code = "context_length_exceeded"


class PayloadTooLarge(InvalidRequest):
    """The body is larger than the limit."""

    code = "payload_too_large"
    http_status = 413


class ModelUnknown(RequestError):
    """No model of that name is served here."""

    code = "model_not_found"
    http_status = 404


class ModelNotReady(RequestError):
    """The model is known but still loading, or has failed."""

    code = "service_unavailable"
    error_type = "server_error"
    http_status = 503

    def __init__(self, message: str, *, hint: str = "", retry_after: int = 2) -> None:
        super().__init__(message, hint=hint, param="model")
        self.retry_after = retry_after


class Overloaded(RequestError):
    """Every lane and the queue are full; `retry_after` is in seconds."""

    code = "rate_limit_exceeded"
    error_type = "rate_limit_error"
    http_status = 429

    def __init__(self, message: str, *, hint: str = "", retry_after: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RequestCancelled(RequestError):
    """The client went away or the request was cancelled."""

    code = "request_cancelled"
    http_status = 499


class NodeError(MeshError):
    """The node as a whole cannot do what was asked."""

    code = "node_error"
    exit_code = ExitCode.NODE
    http_status = 409


class PortTaken(NodeError):
    """Another program listens on the port."""

    code = "port_taken"


class NodeNotRunning(NodeError):
    """No node answers at the address."""

    code = "node_not_running"


class NodeAlreadyRunning(NodeError):
    """A node runs here already."""

    code = "node_already_running"


class NotAuthorized(NodeError):
    """The bearer token is missing or wrong."""

    code = "invalid_api_key"
    error_type = "authentication_error"
    http_status = 401


class HostRefused(NodeError):
    """The Host or Origin header does not name this node (a guard against DNS rebinding)."""

    code = "host_refused"
    error_type = "permission_error"
    http_status = 403


class IdentityError(NodeError):
    """The node's key cannot be read or written, or two machines use the same one."""

    code = "identity_error"


class MeshNetworkError(MeshError):
    """Something between this node and others failed."""

    code = "mesh_error"
    exit_code = ExitCode.MESH
    http_status = 409


class NotInMesh(MeshNetworkError):
    """The node belongs to no mesh, or to another one than was meant."""

    code = "not_in_mesh"


class NotPermitted(MeshNetworkError):
    """This member's certificate does not allow what was asked."""

    code = "not_permitted"
    error_type = "permission_error"
    http_status = 403


class TokenInvalid(MeshNetworkError):
    """An invite that cannot be read: mistyped, cut off, or nothing of ours."""

    code = "token_invalid"
    error_type = "invalid_request_error"
    http_status = 400


class JoinRefused(MeshNetworkError):
    """A member answered and said no; `reason` says which of the known reasons it was."""

    code = "join_refused"
    http_status = 403

    def __init__(self, message: str, *, reason: str = "", hint: str = "", proof: bytes = b"") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.proof = proof
        """A signed record that shows why, where there is one."""


class JoinFailed(MeshNetworkError):
    """Nobody could be asked; `step` names the line of the checklist that failed."""

    code = "join_failed"
    http_status = 502

    def __init__(self, message: str, *, step: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.step = step


class AlreadyInMesh(JoinFailed):
    """The node is in a mesh, or joins one just now."""

    code = "already_in_mesh"
    http_status = 409


class PeerUnreachable(MeshNetworkError):
    """There is no link to that node now."""

    code = "peer_unreachable"
    http_status = 503


class LinkClosed(MeshNetworkError):
    """The link or the channel ended while it was in use."""

    code = "link_closed"
    http_status = 503


class WireError(MeshNetworkError):
    """Bytes from another node that are not what they must be: wrong size, type or order."""

    code = "wire_error"
    http_status = 502


class ProofInvalid(MeshNetworkError):
    """A signature, a certificate or a signed record that does not hold; `reason` is one word for counters."""

    code = "proof_invalid"
    http_status = 403

    def __init__(self, message: str, *, reason: str = "signature", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class DiscoveryError(MeshNetworkError):
    """mDNS or a Nostr relay cannot be used."""

    code = "discovery_error"
    http_status = 502


def describe(error: BaseException) -> str:
    """One line for a person: never empty, even for errors whose text is."""
    text = str(error).strip()
    if isinstance(error, MeshError) or text:
        return text if isinstance(error, MeshError) else f"{type(error).__name__}: {text}"
    return type(error).__name__
