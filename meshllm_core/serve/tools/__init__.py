"""Tool calls: who may be called, how a model writes it, and how it is read back."""

from meshllm_core.serve.tools.constraint import Constraint, constraint
from meshllm_core.serve.tools.dialects import Dialect, detect_dialect, special_markers
from meshllm_core.serve.tools.spec import ToolChoice, ToolSpec, callable_tools

__all__ = [
    "Constraint",
    "Dialect",
    "ToolChoice",
    "ToolSpec",
    "callable_tools",
    "constraint",
    "detect_dialect",
    "special_markers",
]
