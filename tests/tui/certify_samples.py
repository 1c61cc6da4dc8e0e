"""Records of codecs and settings, as a node answers them."""

from collections.abc import Sequence

from meshllm_core.api.schema_certify import Certificates, MeasuredRow, ReviewedRow, VerdictName
from meshllm_core.api.schema_config import Config, ConfigRow
from meshllm_core.certify.priors import reviewed
from meshllm_core.config import KEYS
from meshllm_core.config_text import literal
from meshllm_core.state import events as ev
from meshllm_core.state.certify_events import CodecVerdict
from meshllm_core.state.snapshot import NodeSnapshot
from tests.tui.mesh_samples import OWN, node_id
from tests.tui.samples import START, fold, serving

HOUR = 3600.0


def row(codec: str, verdict: VerdictName, mean_kl: float, **changes: object) -> MeasuredRow:
    """A measurement of SmolLM2 by this node, unless `changes` say otherwise."""
    fields: dict[str, object] = {
        "artifact": "9f" * 32,
        "name": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "cuts": (15,),
        "codec": codec,
        "backend": "cpu",
        "verdict": verdict,
        "reason": "measured at 16 positions with 3 noise seeds; it takes 2000 and 3",
        "positions": 2240,
        "agreed": 2210,
        "mean_kl": mean_kl,
        "max_kl": mean_kl * 40,
        "floor_agreed": 2231.3,
        "floor_mean_kl": 1.2e-6,
        "floor_seeds": 3,
        "shortfall": 1.1,
        "noise": 1e-5,
        "signer": OWN,
        "own": True,
        "at": START - 2 * HOUR,
        "meshllm": "0.1.0",
        "llama_cpp": "0.3.36",
        "device": "cpu",
        "threads": 8,
        "kv_type": "f16",
        "answer_tokens": 64,
    }
    return MeasuredRow(**{**fields, **changes})  # type: ignore[arg-type]


def measured() -> tuple[MeasuredRow, ...]:
    """One model by this node, another by attic."""
    other = {
        "artifact": "3c" * 32,
        "name": "unsloth/Qwen3-4B-GGUF:Q4_K_M",
        "cuts": (12, 24),
        "signer": node_id("attic"),
        "own": False,
        "at": START - 50 * HOUR,
    }
    return (
        row("q8", "rejected", 4.1e-2),
        row("f16", "exact", 1.3e-6),
        row("q8x", "validated", 6.0e-4),
        row("bf16", "untested", 2.0e-6, positions=16),
        row("q8", "exact", 1.0e-6, **other),
    )


def certificates(rows: Sequence[MeasuredRow] | None = None, left_out: int = 0) -> Certificates:
    """What a node knows: those rows, and the records that come with meshllm."""
    return Certificates(
        measured=tuple(measured() if rows is None else rows),
        left_out=left_out,
        reviewed=tuple(
            ReviewedRow(model=one.model, family=one.family, wire=one.wire, q8=one.q8)
            for one in reviewed().values()
        ),
        folder="/home/you/.cache/meshllm/certificates",
    )


STARTED = ev.CertificationStarted(
    at=START + 80, model="SmolLM2-135M-Instruct", cuts=(15,), codecs=("f16", "bf16", "q8", "q8x")
)
GOING = ev.CertificationProgressed(at=START + 199, phase="measuring", done=640, total=2240)
DONE = ev.CertificationEnded(
    at=START + 190,
    outcome="done",
    verdicts=(
        CodecVerdict(codec="f16", verdict="exact"),
        CodecVerdict(codec="q8", verdict="rejected"),
        CodecVerdict(codec="q8x", verdict="validated"),
    ),
)


def measuring() -> NodeSnapshot:
    """A node that measures."""
    return fold(STARTED, GOING, snapshot=serving())


FILE = "/home/you/.config/meshllm/config.toml"
CHANGED: dict[str, dict[str, object]] = {
    "lanes": {"value": "2", "text": "2", "source": "file", "origin": f"{FILE}:3", "in_file": True},
    "ctx_size": {"value": "8192", "text": "8192", "source": "flag", "origin": "--ctx-size"},
    "port": {"value": "9400", "text": "9400", "source": "environment", "origin": "MESHLLM_PORT"},
    "api_key": {"value": "(set, hidden)", "source": "file", "origin": f"{FILE}:4", "in_file": True},
    "queue_limit": {"next_value": "17", "in_file": True},
}


def config(problem: str = "", **changes: dict[str, object]) -> Config:
    """The settings of a node, some of them changed."""
    rows = []
    for key in KEYS:
        value = literal(key.default)
        fields: dict[str, object] = {
            "key": key.name,
            "section": key.section,
            "help": key.help,
            "kind": key.kind,
            "allowed": key.allowed,
            "choices": ("true", "false") if key.kind == "boolean" else key.choices,
            "default": value,
            "value": value,
            "text": "" if key.secret else value.strip('"[]'),
            "secret": key.secret,
            "source": "default",
            "origin": "",
            "variable": key.variable,
            "flag": key.flag,
            "next_value": value,
            "in_file": False,
        }
        fields |= {**CHANGED, **changes}.get(key.name, {})
        if "value" in {**CHANGED, **changes}.get(key.name, {}):
            fields["next_value"] = {**CHANGED, **changes}[key.name].get("next_value", fields["value"])
        rows.append(ConfigRow(**fields))  # type: ignore[arg-type]
    return Config(file=FILE, exists=True, problem=problem, rows=tuple(rows))
