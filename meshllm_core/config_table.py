"""The one table of keys: the fields of `Settings`. Help, flags, variables and ranges all come from here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from meshllm_core.config_keys import Key, key, keys_of

_HOST = (r"[A-Za-z0-9_.:%-]{1,253}", "an address or a host name, without scheme and port")
_URL = (r"(https?://[^\s]+)?", "an http:// or https:// address, or nothing")
_NAME = (r"[^\x00-\x1f\x7f]{0,64}", "up to 64 characters")
_SECRET = (r"[!-~]{0,512}", "printable ASCII without spaces, or nothing")


@dataclass(frozen=True)
class Source:
    """Where a value came from."""

    kind: Literal["default", "file", "environment", "flag"]
    detail: str = ""
    """path:line, the variable or the flag; empty for a default."""

    def __str__(self) -> str:
        return self.detail or self.kind


_DEFAULT = Source("default")


@dataclass(frozen=True)
class Settings:
    """All settings of one run, checked. The fields are the table of keys."""

    models: tuple[str, ...] = key(
        ("default",),
        "Models to serve: a .gguf path, owner/repo[:QUANT][@revision], auto, or default (the embedded one).",
        section="Models",
        flag="--model",
    )
    ctx_size: int = key(
        0,
        "Tokens one request may use, prompt and answer together; 0 chooses what fits.",
        section="Models",
        flag="--ctx-size",
        allowed=(0, 4_194_304),
    )
    lanes: int = key(
        4, "Requests computed at the same time per model.", section="Models", flag="--lanes", allowed=(1, 64)
    )
    device: str = key(
        "auto",
        "Compute device as `meshllm gpus` names it; auto uses the best one, CPU uses none but the processor.",
        section="Models",
        flag="--device",
        pattern=(r"[A-Za-z0-9_.:,-]{1,128}", "a device name"),
    )
    max_vram: float = key(
        0.0,
        "GB (10^9 bytes) of memory that models may use on this machine; 0 is all that is free.",
        section="Models",
        flag="--max-vram",
        allowed=(0, 65_536),
    )
    split: bool = key(
        False,
        "Spread the models over the machines of the mesh, for those that no machine holds alone.",
        section="Models",
        flag="--split",
    )
    wire_dtype: str = key(
        "auto",
        "Number format between the stages of a split model; auto takes the smallest that is certified exact.",
        section="Models",
        flag="--wire-dtype",
        choices=("auto", "f32", "f16", "bf16", "q8", "q8x"),
    )
    stage_source: Literal["auto", "hub", "peer"] = key(
        "auto",
        "Where stages of other machines' models come from: the hub, the machine that asks, auto tries both.",
        section="Models",
        choices=("auto", "hub", "peer"),
    )
    split_topology_lock: str = key(
        "",
        "File that fixes which machine computes which layers of a split model (`meshllm plan --write-lock`).",
        section="Models",
        flag="--split-topology-lock",
    )
    host: str = key(
        "127.0.0.1",
        "Address on which the OpenAI endpoint listens; beyond loopback with api_key or listen_without_key.",
        section="Network",
        flag="--host",
        pattern=_HOST,
    )
    port: int = key(
        9337,
        "Port of the OpenAI endpoint; 0 takes any free one.",
        section="Network",
        flag="--port",
        allowed=(0, 65_535),
    )
    console_host: str = key(
        "127.0.0.1",
        "Address on which the management API listens; beyond loopback every call needs the token.",
        section="Network",
        flag="--console-host",
        pattern=_HOST,
    )
    console_port: int = key(
        3131,
        "Port of the management API; 0 takes any free one.",
        section="Network",
        flag="--console",
        allowed=(0, 65_535),
    )
    api_key: str = key(
        "",
        "Key that clients of the OpenAI endpoint must send as bearer token; empty asks for none.",
        section="Network",
        pattern=_SECRET,
        secret=True,
    )
    listen_without_key: bool = key(
        False,
        "Let anybody who reaches this machine use the OpenAI endpoint, beyond loopback and without api_key.",
        section="Network",
        flag="--listen-without-key",
    )
    client: bool = key(
        False,
        "Use the mesh's models and serve none: no model is loaded, others may not ask this node.",
        section="Mesh",
        flag="--client",
    )
    join: str = key(
        "",
        "Invite of the mesh to join at the start, unless the node is in it already.",
        section="Mesh",
        flag="--join",
        secret=True,
    )
    auto: bool = key(
        False, "Find a public mesh and join it, unless the node is in one.", section="Mesh", flag="--auto"
    )
    node_name: str = key(
        "",
        "Name by which other machines know this one; empty takes the machine's.",
        section="Mesh",
        flag="--node-name",
        pattern=_NAME,
    )
    mesh_name: str = key(
        "",
        "Name of a mesh that this node founds. A name publishes nothing.",
        section="Mesh",
        flag="--mesh-name",
        pattern=_NAME,
    )
    mesh_discovery_mode: Literal["mdns", "nostr", "off"] = key(
        "mdns",
        "How machines find each other: mdns on the local network, nostr by public relays, off.",
        section="Mesh",
        flag="--mesh-discovery-mode",
        choices=("mdns", "nostr", "off"),
    )
    publish: bool = key(
        False,
        "List this mesh on public relays, so that anybody can find it and join as the mesh's policy allows.",
        section="Mesh",
        flag="--publish",
    )
    region: str = key(
        "",
        "Region in the public listing, and the one that is preferred by --auto.",
        section="Mesh",
        flag="--region",
        pattern=(r"[A-Za-z0-9 _.-]{0,32}", "up to 32 letters, digits and dashes"),
    )
    max_clients: int = key(
        8,
        "Strangers who may be in a published mesh at the same time.",
        section="Mesh",
        flag="--max-clients",
        allowed=(1, 1_024),
    )
    nostr_relays: tuple[str, ...] = key(
        (),
        "Relays for public listings; empty takes the usual ones.",
        section="Mesh",
        flag="--nostr-relay",
        pattern=(r"wss?://[^\s]{1,240}", "ws:// or wss:// addresses"),
    )
    bind_ip: tuple[str, ...] = key(
        (),
        "Addresses of this machine to use for the mesh; empty takes those of real networks.",
        section="Mesh",
        flag="--bind-ip",
        pattern=(r"[0-9A-Fa-f:.]{2,45}", "IP addresses of this machine"),
    )
    bind_port: int = key(
        0,
        "UDP and TCP port for the mesh; 0 takes 9338, or any free one if that is taken.",
        section="Mesh",
        flag="--bind-port",
        allowed=(0, 65_535),
    )
    trust_policy: Literal["off", "prefer-owned", "require-owned", "allowlist"] = key(
        "off",
        "Whom to admit by owner: off, prefer-owned, require-owned, allowlist (`meshllm owner`).",
        section="Mesh",
        flag="--trust-policy",
        choices=("off", "prefer-owned", "require-owned", "allowlist"),
    )
    queue_limit: int = key(
        64,
        "Requests that may wait for a lane, per model; more are refused with 429.",
        section="Serving",
        flag="--queue-limit",
        allowed=(0, 4_096),
    )
    keep_alive_seconds: float = key(
        10.0,
        "Seconds of silence after which a stream gets a keep-alive comment.",
        section="Serving",
        allowed=(1, 300),
    )
    max_body_mib: int = key(
        4,
        "Largest request body in MiB; larger ones are refused with 413.",
        section="Serving",
        allowed=(1, 256),
    )
    prefix_slots: int = key(
        4,
        "Idle sequences that may stay in a model's KV cache beside its lanes; others are parked in memory.",
        section="Serving",
        allowed=(0, 128),
    )
    restart_limit: int = key(
        3,
        "Times in a row that a model's engine is started again after it ended by itself.",
        section="Serving",
        allowed=(0, 100),
    )
    threads: int = key(
        0,
        "Threads of each engine; 0 is the number of physical cores.",
        section="Engine",
        flag="--threads",
        allowed=(0, 1_024),
    )
    calibrate: bool = key(
        True,
        "Measure once, for a few seconds in the background, how fast this machine computes.",
        section="Engine",
    )
    batch: int = key(
        512,
        "Tokens computed in one step at most, over all requests.",
        section="Engine",
        flag="--batch",
        allowed=(32, 16_384),
    )
    prefill_chunk: int = key(
        512,
        "Tokens of prompts that one step takes at most, so that running answers go on; no more than batch.",
        section="Engine",
        allowed=(16, 16_384),
    )
    flash_attention: Literal["auto", "on", "off"] = key(
        "auto",
        "Flash attention; auto uses it where the device can.",
        section="Engine",
        flag="--flash-attention",
        choices=("auto", "on", "off"),
    )
    kv_type: Literal["f16", "q8_0", "q4_0"] = key(
        "f16",
        "Number format of the KV cache; q8_0 and q4_0 save memory and cost accuracy.",
        section="Engine",
        flag="--kv-type",
        choices=("f16", "q8_0", "q4_0"),
    )
    mmap: bool = key(True, "Map the model's file into memory instead of copying it.", section="Engine")
    mlock: bool = key(False, "Keep the model from being swapped out.", section="Engine")
    hub_endpoint: str = key(
        "", "Address of a hub to use instead of the usual one.", section="Downloads", pattern=_URL
    )
    theme: str = key(
        "meshllm-dark",
        "Colours of the dashboard: meshllm-dark, -light, -contrast, or a theme file of your own (.toml).",
        section="Dashboard",
        pattern=(
            r"meshllm-(dark|light|contrast)|.+\.toml",
            "meshllm-dark, -light, -contrast or a .toml file",
        ),
    )
    keys: str = key(
        "",
        "A file (.toml) that gives actions of the dashboard other keys; `meshllm keys` lists them.",
        section="Dashboard",
    )
    mouse: bool = key(
        True,
        "Whether the dashboard takes the mouse; without it the terminal selects text as anywhere else.",
        section="Dashboard",
    )
    headless: bool = key(
        False, "Serve without opening the dashboard.", section="This program", flag="--headless"
    )
    log_level: str = key(
        "info",
        "How much is written to the log.",
        section="This program",
        flag="--log-level",
        choices=("debug", "info", "warning", "error"),
    )
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)
    """Origin of each value that is not a default."""
    file: Path | None = field(default=None, compare=False, repr=False)
    """The config.toml that counts, whether it exists or not."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What looked like a mistake without being one for sure: one line each."""

    def source(self, name: str) -> Source:
        """Where the value of a key came from."""
        return self.sources.get(name, _DEFAULT)


KEYS: tuple[Key, ...] = keys_of(Settings)
KEYS_BY_NAME: Mapping[str, Key] = {row.name: row for row in KEYS}
