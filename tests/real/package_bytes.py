"""A package built, served by a hub on loopback and spread over two nodes: what each of them downloaded.

    python -m tests.real.package_bytes MODEL.gguf

Then the same model as a plain GGUF at the hub, of which each node fetches ranges. Exit code 1 when a node
fetched the whole of it, or when the answers differ.
"""

import sys
import tempfile
from pathlib import Path

from meshllm_core.engine.probe_process import make_probes
from meshllm_core.models.package_build import build_package
from meshllm_core.models.stage_rules import StageRules
from meshllm_core.models.stage_source import local_files, open_source
from tests.models.packages import files_of
from tests.node.test_split import _ask, _settled, mesh
from tests.real.namespaces import tell
from tests.support.hub import LocalHub, serve_hub

REPO = "someone/model-layers"
PLAIN = "someone/SmolLM2-135M-Instruct-GGUF"
MEMORY = "0.12"
"""GB that each machine lends: less than SmolLM2 takes."""


def main() -> int:
    """Says what happened; 0 when it is as it should be."""
    model = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as made, serve_hub() as hub:
        folder = Path(made)
        rules = StageRules(open_source(local_files(model)))
        probes = make_probes(rules, (model,), folder / "log", threads=1)
        built = build_package(model, folder / "package", created_at=1_700_000_000, probes=lambda: probes)
        package = files_of(built.folder)
        hub.add(REPO, package)
        hub.add(PLAIN, {model.name: model.read_bytes()})
        plain, size = model.stat().st_size, sum(map(len, package.values()))
        tell(f"{model.name}: {plain:,} bytes; as a package {size:,} bytes in {len(package)} files")
        good = _spread(folder / "a", hub, f"hf://{REPO}", {"Anna": size, "Bert": size})
        # Who is asked for a plain file has it whole.
        good = _spread(folder / "b", hub, PLAIN, {"Anna": plain + 1, "Bert": plain}) and good
    return 0 if good else 1


def _spread(folder: Path, hub: LocalHub, reference: str, below: dict[str, int]) -> bool:
    before = dict(hub.served)
    folder.mkdir()
    settings = f'hub_endpoint = "{hub.address}"\n'
    with mesh(folder, "Anna", "Bert", flags=("--max-vram", MEMORY), settings=settings) as (anna, _):
        anna.act("load", model=reference, split=True)
        row = _settled(anna)
        if row["status"] != "ready":
            tell(f"  {reference}: {row['error']} {row['hint']}")
            return False
        tell(f"{reference}: {row['split']['sentence']}")
        tell(f"  answers {_ask(anna).json()['choices'][0]['text']!r}")
        good = True
        for stage in row["split"]["stages"]:
            name = stage["node_name"]
            sent = hub.served[name] - before.get(name, 0)
            tell(f"  {name}, layers {stage['start']}-{stage['end'] - 1}: {sent:,} bytes from the hub")
            good = good and 0 < sent < below[name]
        return good


if __name__ == "__main__":
    sys.exit(main())
