"""What `meshllm plan` is told: a model or its description, machines, a topology that is fixed."""

import socket
import tomllib
from pathlib import Path

import msgspec

from meshllm_core.cli.control import absolute
from meshllm_core.config import Settings
from meshllm_core.errors import ConfigError, ModelNotFound
from meshllm_core.models.cache import Cache
from meshllm_core.models.embedded import embedded_model
from meshllm_core.models.hardware import detect
from meshllm_core.models.inspect import inspect_model
from meshllm_core.models.package_folder import PackageFolder, open_package
from meshllm_core.models.package_manifest import MANIFEST_NAME
from meshllm_core.models.package_model import describe_package
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.node.calibrate import conditions_of
from meshllm_core.node.devices import list_devices
from meshllm_core.node.pace_file import kept_pace
from meshllm_core.paths import Paths
from meshllm_core.planner.cluster import read_cluster
from meshllm_core.planner.describe import described
from meshllm_core.planner.memory import every_range, ranges_between
from meshllm_core.planner.network import Network, PlanNode
from meshllm_core.planner.real_model import PlannedModel, planned_model
from meshllm_core.state.pace_events import Pace

MAX_FILE_BYTES = 1 << 20


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


def read_network(path: Path | None, settings: Settings, paths: Paths) -> Network:
    """The machines of a file; without one this machine alone, as fast as it is known to be.

    Raises ConfigError.
    """
    if path is not None:
        return read_cluster(read_document(path), str(path))
    hardware = detect(list_devices)
    pace = kept_pace(paths, conditions_of(settings, hardware)) or Pace()
    here = PlanNode(
        socket.gethostname()[:64] or "here",
        hardware.memory_for("auto"),
        bytes_per_second=pace.decode or None,
        calibrated=pace.source == "calibrated",
    )
    return Network((here,))


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
    """A GGUF or a package that is here (a path, a downloaded model's name, `default`), or a description.

    Raises a ModelError or ConfigError. Nothing is downloaded.
    """
    if ref.lower().endswith(".json"):
        document = read_document(Path(ref).expanduser())
        return _described(document, ref)
    if ref == "default":
        return _planned(embedded_model())
    path = Path(absolute(ref))
    if path.is_file():
        return _planned(path)
    if (path / MANIFEST_NAME).is_file():
        return _packaged(open_package(path))
    found = [model for model in Cache(paths.models).find(ref) if model.complete]
    if found:
        return _planned(found[0].files[0])
    raise ModelNotFound(
        f"No model {ref!r} is here.",
        hint="Name a .gguf file, a package's folder, a downloaded model (`meshllm models list`) or a .json "
        "description, or describe it: --layers 94 --bytes 132GB.",
    )


def _described(document: object, where: str) -> PlannedModel:
    model, cuts = described(document, where)
    return PlannedModel(model, every_range if cuts is None else ranges_between(cuts, model.layers), "")


def _planned(path: Path) -> PlannedModel:
    return planned_model(inspect_model(path), open_source(local_files(path)))


def _packaged(package: PackageFolder) -> PlannedModel:
    found = describe_package(package)
    return planned_model(found.facts, found.source, tensors=found.tensors, fingerprint=package.identity)
