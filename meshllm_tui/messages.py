"""What workers tell the widgets. A newer message of a replaceable kind takes the place of a waiting one."""

from textual.message import Message

from meshllm_core.errors import MeshError
from meshllm_tui.present import NodeView


class SnapshotChanged(Message):
    """The node, or the link to it, changed."""

    def __init__(self, view: NodeView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Only the newest view is worth drawing."""
        return isinstance(message, SnapshotChanged)


class TokensArrived(Message):
    """The answer that is being written grew, or its state changed."""

    def can_replace(self, message: Message) -> bool:
        """All of the answer is drawn at once, however many pieces arrived."""
        return isinstance(message, TokensArrived)


class ActionDone(Message):
    """The node did what was asked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ActionFailed(Message):
    """The node refused, or could not be asked."""

    def __init__(self, what: str, error: MeshError) -> None:
        super().__init__()
        self.what = what
        self.error = error
