"""Measuring the codecs of a model, from its files to signed records: for the command and for the node."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from meshllm_core import __version__
from meshllm_core.certify import prompts
from meshllm_core.certify.figures import NOISE
from meshllm_core.certify.record import CodecCertificate, Conditions, seal_certificate
from meshllm_core.engine.certify_process import run_certify
from meshllm_core.engine.certify_protocol import CertifyJob, Doing, Measured, Over
from meshllm_core.engine.protocol import LoadSpec
from meshllm_core.errors import ConfigError, ModelNotFound
from meshllm_core.identity.keys import SigningKey
from meshllm_core.models.cache import Cache
from meshllm_core.models.certificates import CertificateStore, hash_artifact
from meshllm_core.models.hub import Hub
from meshllm_core.models.locate import locate
from meshllm_core.models.marks import in_use
from meshllm_core.models.memory import usable_cores
from meshllm_core.models.scratch import scratch
from meshllm_core.models.stage_file import plan_stage_file
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from meshllm_core.models.stage_writer import write_stage_file
from meshllm_core.paths import Paths
from meshllm_core.wire.codecs import Dtype, dtype_named

CODECS = "f16,bf16,q8,q8x"
"""What is measured where nothing else is asked for."""
SEEDS = (1, 2, 3)
ANSWER_TOKENS = 64
CONTEXT = 256
"""Tokens of the longest prompt with its answer."""

Report = Callable[[Doing], None]
"""Gets the phases hashing (bytes), writing (layers), answering and measuring (positions), in this order.

What it raises ends the measurement.
"""
Hold = Callable[["subprocess.Popen[bytes]"], None]
"""Gets the process that computes, as soon as it runs: to make it yield to others, or to end it."""


@dataclass(frozen=True)
class MeasurementPlan:
    """What is to be measured, checked."""

    files: tuple[Path, ...]
    name: str
    """owner/repo:QUANT at the hub; empty for a file of one's own."""
    rules: StageRules
    splits: tuple[tuple[int, ...], ...]
    """First layers of the later stages, for each split."""
    dtypes: tuple[Dtype, ...]
    device: str
    threads: int

    @property
    def bytes_total(self) -> int:
        """Of the model's files: about what has to be in memory at once."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def title(self) -> str:
        """A name for people."""
        return self.name or self.files[0].name


@dataclass(frozen=True)
class Split:
    """The certificates of one set of cuts."""

    cuts: tuple[int, ...]
    certificates: tuple[CodecCertificate, ...]
    """One for each codec; at least one."""
    widened: Mapping[str, int]
    """Rows by codec that would be sent as f32."""


@dataclass(frozen=True)
class MeasurementResult:
    """What was measured, signed and kept."""

    artifact: bytes
    splits: tuple[Split, ...]
    llama_cpp: str


def find_files(model: str, cache: Cache, hub: Hub) -> tuple[tuple[Path, ...], str]:
    """The model's files, and its name at the hub (empty for a file of one's own). Downloads nothing.

    Raises ModelNotFound where they are not on this disk, HubUnreachable, DownloadFailed.
    """
    known = [found for found in cache.find(model) if found.complete and found.kind != "layers"]
    if known:
        return tuple(known[0].files), f"{known[0].repo}:{known[0].quant}"
    located = locate(model, cache=cache, hub=hub, memory_available=None)
    if not located.files:
        raise ModelNotFound(
            f"{model} is not on this disk.", hint=f"Download it first: `meshllm models download {model}`."
        )
    return located.files, ""


def plan_measurement(
    files: tuple[Path, ...],
    name: str,
    *,
    cuts: Sequence[str] = (),
    codecs: str = CODECS,
    device: str = "auto",
    threads: int = 0,
) -> MeasurementPlan:
    """`cuts`: layers by commas, one text for each split; none: the middle. `threads` 0: all cores.

    Raises ConfigError for what cannot be read, CutRefused where the model cannot be cut, ModelFileInvalid.
    """
    dtypes = tuple(dict.fromkeys(dtype_named(label.strip()) for label in codecs.split(",")))
    rules = StageRules(open_source(local_files(files[0])))
    splits = tuple(dict.fromkeys(_cuts(text, rules) for text in cuts or [_middle(rules)]))
    return MeasurementPlan(files, name, rules, splits, dtypes, device, threads or usable_cores())


def measure(
    plan: MeasurementPlan,
    paths: Paths,
    key: Callable[[], SigningKey],
    report: Report,
    hold: Hold = lambda process: None,
) -> MeasurementResult:
    """Hashes, cuts, measures, signs and keeps. Blocks for minutes. `key` is asked for at the end.

    Raises MeshError, and what `report` raises.
    """
    with in_use(plan.files):
        artifact = _hash(plan.files, report)
        with scratch(paths.cache, "certify") as folder:
            stages = [_write(plan.rules, split, folder, report) for split in plan.splits]
            job = _job(plan, stages)

            def positions(doing: Doing) -> None:
                tokens = job.answer_tokens
                report(Doing(phase=doing.phase, done=doing.done * tokens, total=doing.total * tokens))

            measured, over = run_certify(job, paths.logs / "certify.log", positions, hold)
    store = CertificateStore(paths.certificates)
    splits = _sign(plan, artifact, job, measured, over, key(), store)
    store.name(artifact, plan.title)
    return MeasurementResult(artifact, splits, over.llama_cpp)


def _middle(rules: StageRules) -> str:
    legal = rules.legal_cuts
    if not legal:
        raise ConfigError(
            f"{rules.source.name} cannot be cut anywhere.", hint="It runs whole, on one machine."
        )
    return str(min(legal, key=lambda cut: abs(2 * cut - rules.layers)))


def _cuts(text: str, rules: StageRules) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise ConfigError(f"The cuts {text[:80]!r} are not a list of layers.", hint="For instance: 10,20")
    found = tuple(int(part) for part in parts)
    if list(found) != sorted(set(found)):
        raise ConfigError(f"The cuts {text[:80]} are not in rising order.", hint="For instance: 10,20")
    edges = (0, *found, rules.layers)
    for start, end in pairwise(edges):
        rules.shape(start, end)
    return found


def _hash(files: Sequence[Path], report: Report) -> bytes:
    total = sum(file.stat().st_size for file in files) or 1
    return hash_artifact(files, lambda done: report(Doing(phase="hashing", done=done, total=total)))


def _write(rules: StageRules, cuts: Sequence[int], folder: Path, report: Report) -> list[Path]:
    """The stages' files."""
    edges = (0, *cuts, rules.layers)
    made = []
    for start, end in pairwise(edges):
        target = folder / f"{'-'.join(str(cut) for cut in cuts)}.{start}-{end}.gguf"
        report(Doing(phase="writing", done=start, total=rules.layers))
        made.append(write_stage_file(plan_stage_file(rules, start, end), target))
    return made


def _job(plan: MeasurementPlan, stages: Sequence[Sequence[Path]]) -> CertifyJob:
    def spec(paths: Sequence[Path]) -> LoadSpec:
        return LoadSpec(
            files=tuple(str(path) for path in paths), context=CONTEXT, lanes=1, prefix_slots=0, queue_limit=0,
            batch=CONTEXT, threads=plan.threads, device=plan.device,
        )  # fmt: skip

    return CertifyJob(
        whole=spec(plan.files),
        chains=tuple(tuple(spec([file]) for file in chain) for chain in stages),
        dtypes=tuple(dtype.label for dtype in plan.dtypes),
        seeds=SEEDS,
        prompts=prompts.PROMPTS,
        answer_tokens=ANSWER_TOKENS,
    )


def _sign(
    plan: MeasurementPlan,
    artifact: bytes,
    job: CertifyJob,
    measured: Mapping[int, Measured],
    over: Over,
    key: SigningKey,
    store: CertificateStore,
) -> tuple[Split, ...]:
    """Signs and keeps a record for each codec and split."""
    conditions, now, found = _conditions(job, over), time.time(), []
    for number, cuts in enumerate(plan.splits):
        one = measured[number]
        made = tuple(
            CodecCertificate(artifact, cuts, d, over.backend, one.figures[d.label], conditions, now)
            for d in plan.dtypes
        )
        for certificate in made:
            store.add(seal_certificate(key, certificate))
        found.append(Split(cuts, made, one.widened))
    return tuple(found)


def _conditions(job: CertifyJob, over: Over) -> Conditions:
    spec = job.whole
    return Conditions(
        meshllm=__version__,
        llama_cpp=over.llama_cpp,
        device=spec.device,
        threads=spec.threads,
        kv_type=spec.kv_type,
        flash_attention=spec.flash_attention,
        prompts=prompts.prompts_digest(),
        answer_tokens=job.answer_tokens,
        noise=NOISE,
        seeds=job.seeds,
    )
