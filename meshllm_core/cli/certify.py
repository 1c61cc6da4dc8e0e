"""`meshllm certify`: which wire codecs a model stands, measured with its own stages against its own noise."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from meshllm_core.cli.control import absolute
from meshllm_core.cli.diagnostics import Progress, say
from meshllm_core.cli.interrupts import interruptible
from meshllm_core.cli.models import open_hub
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import emit, emit_json
from meshllm_core.models.units import show_bytes
from meshllm_core.paths import default_paths

if TYPE_CHECKING:
    from meshllm_core.engine.certify_protocol import Doing
    from meshllm_core.identity.keys import SigningKey

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
    from meshllm_core.engine.certify_model import find_files, measure, plan_measurement
    from meshllm_core.identity.storage import load_or_create
    from meshllm_core.models.cache import Cache
    from meshllm_core.models.certificates import CertificateStore
    from meshllm_core.node.devices import list_devices
    from meshllm_core.node.placement import check_device

    paths, progress = default_paths(), Progress()
    files, name = find_files(absolute(model), Cache(paths.models), open_hub(paths))
    plan = plan_measurement(files, name, cuts=cuts or (), codecs=codecs, device=device, threads=threads)
    if device.lower() not in ("auto", "cpu"):
        check_device(device, list_devices())
    signers: list[SigningKey] = []

    def key() -> "SigningKey":
        signers.append(load_or_create(paths).key)
        return signers[0]

    try:
        with interruptible():
            result = measure(plan, paths, key, _shower(progress))
    except KeyboardInterrupt:
        progress.end()
        say("Stopped. Nothing was measured, and nothing is left of it.")
        raise
    finally:
        progress.end()
    records = CertificateStore(paths.certificates).load()
    document = certify_text.document(
        Artifact(result.artifact, name),
        result.splits,
        [record for record in records if record.signer == signers[0].public],
        file=files[0].name,
        width=plan.rules.source.width,
        llama_cpp=result.llama_cpp,
        folder=paths.certificates,
    )
    if as_json:
        emit_json(document)
    else:
        emit(certify_text.show(document))
        say(f"The signed records are in {paths.certificates}.")


def _shower(progress: Progress) -> "Callable[[Doing], None]":
    """Shows each phase from 0 to 100."""

    def show(doing: "Doing") -> None:
        match doing.phase:
            case "hashing":
                words = f"hashing {show_bytes(doing.done)} of {show_bytes(doing.total)}"
            case "writing":
                words = f"writing layers from {doing.done} of {doing.total}"
            case _:
                words = f"{doing.phase}: {doing.done} of {doing.total} positions"
        progress.show(words, doing.done * 100 // doing.total)

    return show
