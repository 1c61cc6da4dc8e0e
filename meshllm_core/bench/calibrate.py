"""Finds how many words make a prompt of the wanted number of tokens, by the server's own count."""

from meshllm_core.bench.completion import Target, complete, settle_extensions
from meshllm_core.bench.plan import Plan
from meshllm_core.bench.prompts import PromptMaker
from meshllm_core.errors import InvalidRequest

_MOST_TRIES = 10
_TOLERANCE = 0.02


async def calibrate(target: Target, plan: Plan) -> tuple[Target, PromptMaker]:
    """The target as the server takes it, and a maker whose prompts have `plan.prompt_tokens` tokens.

    Exact wherever some number of words gives that count, else the nearest within 2 %.
    Raises InvalidRequest when nothing comes near (a chat template may be longer than the wanted prompt).
    """
    wanted = plan.prompt_tokens
    target, timing = await settle_extensions(target, PromptMaker(wanted, plan.seed).make("size", wanted))
    seen = {wanted: timing.prompt_tokens}
    words = wanted
    while seen[words] != wanted and len(seen) < _MOST_TRIES:
        following = _next_try(words, seen[words], wanted)
        if following in seen:
            break
        words = following
        prompt = PromptMaker(words, plan.seed).make("size", words)
        seen[words] = (await complete(target, prompt, 1)).prompt_tokens
    best = min(seen, key=lambda count: abs(seen[count] - wanted))
    if abs(seen[best] - wanted) > max(1.0, _TOLERANCE * wanted):
        raise InvalidRequest(
            f"No prompt of {wanted} tokens can be made: the nearest has {seen[best]}.",
            hint="Give another --prompt-tokens.",
            param="--prompt-tokens",
        )
    shared = max(0, best - plan.tail_tokens) if plan.reuse else 0
    return target, PromptMaker(best, plan.seed, shared)


def _next_try(words: int, tokens: int, wanted: int) -> int:
    """A step in proportion while far away, word by word when near."""
    difference = wanted - tokens
    if abs(difference) <= 4:
        return max(1, words + difference)
    return max(1, words + round(difference * words / tokens)) if tokens else words + difference
