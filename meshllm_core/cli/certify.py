"""`meshllm certify`: which wire codecs a model stands, measured with its own stages against its own noise."""

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli.control import absolute
from meshllm_core.cli.diagnostics import Progress, say
from meshllm_core.cli.models import open_hub
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json
from meshllm_core.errors import ConfigError, ModelNotFound
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import Paths, default_paths

if TYPE_CHECKING:
    from meshllm_core.certify.record import Certified, Conditions
    from meshllm_core.cli.certify_text import Split
    from meshllm_core.engine.certify_protocol import CertifyJob, Doing, Measured, Over
    from meshllm_core.models.stage_rules import StageRules
    from meshllm_core.wire.codecs import Dtype

Ref = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A .gguf path, or a model that is downloaded."),
]
Codecs = Annotated[
    str, typer.Option("--codecs", metavar="LIST", help="Which: f16, bf16, q8, q8x; by commas.")
]
Cuts = Annotated[
    list[str] | None,
    typer.Option(
        "--cuts", metavar="LIST", help="First layers of the later stages, as in 10,20. Again for more splits."
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="Where to compute, as `gpus` lists.")]
Threads = Annotated[
    int, typer.Option("--threads", metavar="N", min=0, max=1024, help="Compute threads; 0: all cores.")
]

SEEDS = (1, 2, 3)
ANSWER_TOKENS = 64
CONTEXT = 256
"""Tokens of the longest prompt with its answer."""


def certify(
    model: Ref,
    codecs: Codecs = "f16,bf16,q8,q8x",
    cuts: Cuts = None,
    device: Device = "auto",
    threads: Threads = 0,
    as_json: AsJson = False,
) -> None:
    """Measure which wire codecs a model stands when it is split, and sign the result.

    Its own sensitivity comes first: noise of one in 100,000 at the cut sets the floor. A codec is exact when
    it does at most twice that harm, validated when it changes no more tokens, else rejected.
    """
    from meshllm_core.certify.gate import Artifact
    from meshllm_core.cli import certify_text
    from meshllm_core.engine.certify_process import run_certify
    from meshllm_core.models.marks import in_use
    from meshllm_core.models.stage_rules import StageRules
    from meshllm_core.models.stage_source import local_files, open_source
    from meshllm_core.wire.codecs import dtype_named

    paths, progress = default_paths(), Progress()
    dtypes = tuple(dict.fromkeys(dtype_named(label.strip()) for label in codecs.split(",")))
    files, name = _files(model, paths)
    rules = StageRules(open_source(local_files(files[0])))
    splits = tuple(dict.fromkeys(_cuts(text, rules) for text in cuts or [_middle(rules)]))
    with in_use(files):
        artifact = _hash(files, progress)
        paths.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=paths.cache, prefix="certify-") as folder:
            stages = [_write(rules, split, Path(folder), progress) for split in splits]
            job = _job(files, stages, dtypes, device, threads or _cores())
            measured, over = run_certify(job, paths.logs / "certify.log", _shower(progress, job))
    progress.end()
    found, known = _sign(artifact, splits, dtypes, job, measured, over, paths)
    document = certify_text.document(
        Artifact(artifact, name),
        found,
        known,
        file=files[0].name,
        width=rules.source.width,
        llama_cpp=over.llama_cpp,
        folder=paths.certificates,
    )
    if as_json:
        emit_json(document)
    else:
        emit(certify_text.show(document))
        say(f"The signed records are in {paths.certificates}.")


def _files(model: str, paths: Paths) -> tuple[tuple[Path, ...], str]:
    """The model's files, and its name at the hub (empty for a file of one's own)."""
    from meshllm_core.models.cache import Cache
    from meshllm_core.models.locate import locate

    cache = Cache(paths.models)
    known = [found for found in cache.find(model) if found.complete and found.kind != "layers"]
    if known:
        return tuple(known[0].files), f"{known[0].repo}:{known[0].quant}"
    located = locate(absolute(model), cache=cache, hub=open_hub(paths), memory_available=None)
    if not located.files:
        raise ModelNotFound(
            f"{model} is not on this disk.", hint=f"Download it first: `meshllm models download {model}`."
        )
    return located.files, ""


def _middle(rules: "StageRules") -> str:
    legal = rules.legal_cuts
    if not legal:
        raise ConfigError(
            f"{rules.source.name} cannot be cut anywhere.", hint="It runs whole, on one machine."
        )
    return str(min(legal, key=lambda cut: abs(2 * cut - rules.layers)))


def _cuts(text: str, rules: "StageRules") -> tuple[int, ...]:
    """Raises ConfigError; CutRefused where the model cannot be cut."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise ConfigError(f"--cuts {text!r} is not a list of layers.", hint="For instance: --cuts 10,20")
    found = tuple(int(part) for part in parts)
    if list(found) != sorted(set(found)):
        raise ConfigError(f"The cuts {text} are not in rising order.", hint="For instance: --cuts 10,20")
    edges = (0, *found, rules.layers)
    for start, end in pairwise(edges):
        rules.shape(start, end)
    return found


def _cores() -> int:
    from meshllm_core.models.memory import usable_cores

    return usable_cores()


def _hash(files: Sequence[Path], progress: Progress) -> bytes:
    from meshllm_core.models.certificates import hash_artifact

    total = sum(file.stat().st_size for file in files) or 1
    return hash_artifact(
        files,
        lambda done: progress.show(f"hashing {show_bytes(done)} of {show_bytes(total)}", done * 100 // total),
    )


def _write(rules: "StageRules", cuts: Sequence[int], folder: Path, progress: Progress) -> list[Path]:
    """The stages' files."""
    from meshllm_core.models.stage_file import plan_stage_file
    from meshllm_core.models.stage_writer import write_stage_file

    edges = (0, *cuts, rules.layers)
    made = []
    for start, end in pairwise(edges):
        target = folder / f"{'-'.join(str(cut) for cut in cuts)}.{start}-{end}.gguf"
        progress.show(f"writing layers {start} to {end - 1}", start * 100 // rules.layers)
        made.append(write_stage_file(plan_stage_file(rules, start, end), target))
    return made


def _job(
    files: Sequence[Path],
    stages: Sequence[Sequence[Path]],
    dtypes: Sequence["Dtype"],
    device: str,
    threads: int,
) -> "CertifyJob":
    from meshllm_core.certify.prompts import PROMPTS
    from meshllm_core.engine.certify_protocol import CertifyJob
    from meshllm_core.engine.protocol import LoadSpec

    def spec(paths: Sequence[Path]) -> LoadSpec:
        return LoadSpec(
            files=tuple(str(path) for path in paths), context=CONTEXT, lanes=1, prefix_slots=0, queue_limit=0,
            batch=CONTEXT, threads=threads, device=device,
        )  # fmt: skip

    return CertifyJob(
        whole=spec(files),
        chains=tuple(tuple(spec([file]) for file in chain) for chain in stages),
        dtypes=tuple(dtype.label for dtype in dtypes),
        seeds=SEEDS,
        prompts=PROMPTS,
        answer_tokens=ANSWER_TOKENS,
    )


def _shower(progress: Progress, job: "CertifyJob") -> "Callable[[Doing], None]":
    """Shows each phase from 0 to 100."""

    def show(doing: "Doing") -> None:
        positions = f"{doing.done * job.answer_tokens} of {doing.total * job.answer_tokens} positions"
        progress.show(f"{doing.phase}: {positions}", doing.done * 100 // doing.total)

    return show


def _sign(
    artifact: bytes,
    splits: Sequence[tuple[int, ...]],
    dtypes: Sequence["Dtype"],
    job: "CertifyJob",
    measured: "dict[int, Measured]",
    over: "Over",
    paths: Paths,
) -> "tuple[list[Split], list[Certified]]":
    """Signs and keeps a record for each codec and split; those, and all records of this node."""
    from meshllm_core.certify.record import CodecCertificate, seal_certificate
    from meshllm_core.cli.certify_text import Split
    from meshllm_core.identity.storage import load_or_create
    from meshllm_core.models.certificates import CertificateStore

    key, store = load_or_create(paths).key, CertificateStore(paths.certificates)
    conditions, now, found = _conditions(job, over), time.time(), []
    for number, cuts in enumerate(splits):
        one = measured[number]
        made = [
            CodecCertificate(artifact, cuts, d, over.backend, one.figures[d.label], conditions, now)
            for d in dtypes
        ]
        for certificate in made:
            store.add(seal_certificate(key, certificate))
        found.append(Split(cuts, tuple(made), one.widened))
    return found, [record for record in store.load() if record.signer == key.public]


def _conditions(job: "CertifyJob", over: "Over") -> "Conditions":
    from meshllm_core import __version__
    from meshllm_core.certify.figures import NOISE
    from meshllm_core.certify.prompts import prompts_digest
    from meshllm_core.certify.record import Conditions

    spec = job.whole
    return Conditions(
        meshllm=__version__,
        llama_cpp=over.llama_cpp,
        device=spec.device,
        threads=spec.threads,
        kv_type=spec.kv_type,
        flash_attention=spec.flash_attention,
        prompts=prompts_digest(),
        answer_tokens=job.answer_tokens,
        noise=NOISE,
        seeds=job.seeds,
    )
