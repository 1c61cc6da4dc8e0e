"""The registry's actions as Textual bindings."""

from textual.binding import Binding, BindingType

from meshllm_tui.actions.registry import actions_of


def bindings_of(*places: str) -> list[BindingType]:
    """Bindings of some places; each carries its action's id, so that a key map can change its key."""
    return [
        Binding(
            key,
            action.method,
            action.label,
            show=action.footer is not False,
            key_display=shown,
            priority=action.priority,
            tooltip=action.help,
            id=action.id,
        )
        for action in actions_of(*places)
        if action.keys
        for key, shown in zip(action.keys.split(","), action.shown.split(", "), strict=True)
    ]
