"""What the engine's loop computes with: a whole model's context, or that of the last stage of a split one."""

from meshllm_core.engine.llama.context import Context
from meshllm_core.engine.split_context import SplitContext

AnyContext = Context | SplitContext
