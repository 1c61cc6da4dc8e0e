"""A model's thoughts, kept apart from its answer. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The tags around a thought."""

    open: str
    close: str


_KNOWN = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("<thinking>", "</thinking>"),
    ReasoningTags("<reasoning>", "</reasoning>"),
    ReasoningTags("<thought>", "</thought>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<seed:think>", "</seed:think>"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>"),
)


def detect_reasoning(template: str) -> ReasoningTags | None:
    """The tags that a template's source mentions, the first to be mentioned; None for a model that does not think."""
    found = [
        (at, tags) for tags in _KNOWN for tag in (tags.open, tags.close) if (at := template.find(tag)) >= 0
    ]
    return min(found, key=lambda hit: hit[0])[1] if found else None
