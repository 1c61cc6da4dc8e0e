"""What `meshllm plan` is told: a model or its description, machines, a topology that is fixed."""

import socket
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from meshllm_core.cli.control import absolute
from meshllm_core.errors import ConfigError, CutRefused, ModelNotFound
from meshllm_core.models.cache import Cache
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hardware import detect
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import StageSource, local_files, open_source
from meshllm_core.node.devices import list_devices
from meshllm_core.paths import Paths
from meshllm_core.planner.cluster import read_cluster
from meshllm_core.planner.describe import described
from meshllm_core.planner.memory import Window, Windows, every_range, ranges_between
from meshllm_core.planner.model import Readers, SplitModel, from_tensors
from meshllm_core.planner.network import Network, PlanNode

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class PlannedModel:
    """A model with where it may be cut."""

    model: SplitModel
    windows: Windows
    indivisible: str
    """Why it cannot be cut at all; empty if it can."""


def read_bytes(path: Path) -> bytes:
    """A small file. Raises ConfigError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check the path."
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB.", hint="It is no such description."
        )
    return data


def read_document(path: Path) -> object:
    """A TOML file, or JSON where the name ends so. Raises ConfigError."""
    data = read_bytes(path)
    try:
        if path.suffix.lower() == ".json":
            return msgspec.json.decode(data)
        return tomllib.loads(data.decode())
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise ConfigError(
            f"{path} is not {kind}: {error}.", hint="Correct it; see `meshllm plan --help`."
        ) from error


def read_network(path: Path | None) -> Network:
    """The machines of a file; without one this machine alone. Raises ConfigError."""
    if path is not None:
        return read_cluster(read_document(path), str(path))
    memory = detect(list_devices).memory_for("auto")
    return Network((PlanNode(socket.gethostname()[:64] or "here", memory),))


def from_options(name: str, layers: int | None, size: str, shape: str) -> PlannedModel:
    """A model described on the command line. Raises ConfigError."""
    given: dict[str, object] = {"name": name}
    for part in filter(None, (part.strip() for part in shape.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(
                f"--shape: {part[:60]!r} is not key=value.", hint="Write --shape width=4096,kv_heads=8."
            )
        given[key.strip()] = value.strip()
    if layers is not None:
        given["layers"] = layers
    if size:
        given["bytes"] = size
    return _described(given, "the description")


def read_model(ref: str, paths: Paths) -> PlannedModel:
    """A GGUF that is here (a path, a downloaded model's name, `default`), or a .json description of a model.

    Raises a ModelError or ConfigError. Nothing is downloaded.
    """
    if ref.lower().endswith(".json"):
        document = read_document(Path(ref).expanduser())
        return _described(document, ref)
    if ref == "default":
        return _from_file(embedded_model())
    path = Path(absolute(ref))
    if path.is_file():
        return _from_file(path)
    found = [model for model in Cache(paths.models).find(ref) if model.complete]
    if found:
        return _from_file(found[0].files[0])
    raise ModelNotFound(
        f"No model {ref!r} is here.",
        hint="Name a .gguf file, a downloaded model (`meshllm models list`) or a .json description, "
        "or describe it: --layers 94 --bytes 132GB.",
    )


def _described(document: object, where: str) -> PlannedModel:
    model, cuts = described(document, where)
    return PlannedModel(model, every_range if cuts is None else ranges_between(cuts, model.layers), "")


def _from_file(path: Path) -> PlannedModel:
    facts = inspect_model(path)
    source = open_source(local_files(path))
    indivisible, streams = "", 1
    windows: Windows = every_range
    readers: Readers = "none"
    try:
        rules = StageRules(source)
        windows, streams = _windows_of(rules), rules.rule.streams
        if rules.lookup_scale is None:
            readers = "every" if rules.sideband else "first"
    except CutRefused as error:
        indivisible = error.message.rstrip(".")
    experts = source.keys.number("expert_count", 0)
    used = source.keys.number("expert_used_count", 0)
    model = from_tensors(
        facts,
        ((name, found.tensor.nbytes) for name, found in source.tensors.items()),
        fingerprint=_fingerprint(source),
        trunk=source.layers,
        experts_used=min(1.0, used / experts) if experts and used else 1.0,
        streams=streams,
        readers=readers,
    )
    return PlannedModel(model, windows, indivisible)


def _windows_of(rules: StageRules) -> Windows:
    def window(first: int, end: int) -> Window | None:
        try:
            shape = rules.shape(first, end)
        except CutRefused:
            return None
        return shape.window_start, shape.window_end

    return window


def _fingerprint(source: StageSource) -> str:
    """SHA-256 over the beginning of each file up to its first weight: key/values and tensor table."""
    digest = sha256()
    for file in source.files:
        begin = min((t.offset for t in source.tensors.values() if t.file is file), default=0)
        digest.update(file.read(0, begin))
    return digest.hexdigest()
