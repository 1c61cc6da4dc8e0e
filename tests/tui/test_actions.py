"""The registry is the one source of keys, footer, help and palette."""

import pytest
from textual.binding import Binding

from meshllm_tui.actions.action import Action
from meshllm_tui.actions.registry import ACTIONS, PLACES, help_rows
from meshllm_tui.app import MeshApp
from meshllm_tui.keys import bindings_of
from meshllm_tui.pages.certify import CertifyPage
from meshllm_tui.pages.page import Page
from meshllm_tui.pages.settings import SettingsPage
from meshllm_tui.pages.split import SplitDesk
from meshllm_tui.widgets.activity_pane import ActivityPane
from meshllm_tui.widgets.catalog_pane import CatalogPane
from meshllm_tui.widgets.chat_pane import ChatPane
from meshllm_tui.widgets.chats_pane import ChatsPane
from meshllm_tui.widgets.connect_pane import ConnectPane
from meshllm_tui.widgets.downloads_pane import DownloadsPane
from meshllm_tui.widgets.invite_pane import InvitePane
from meshllm_tui.widgets.invites_pane import InvitesPane
from meshllm_tui.widgets.join_pane import JoinPane
from meshllm_tui.widgets.library_pane import LibraryPane
from meshllm_tui.widgets.log_pane import LogPane
from meshllm_tui.widgets.logs_pane import LogsPane
from meshllm_tui.widgets.mesh_pane import MeshPane
from meshllm_tui.widgets.models_pane import ModelsPane
from meshllm_tui.widgets.node_pane import NodePane
from meshllm_tui.widgets.plan_desk import PlanDesk
from meshllm_tui.widgets.plan_panes import CandidatesPane
from meshllm_tui.widgets.requests_pane import RequestPane, RequestsPane
from meshllm_tui.widgets.running_pane import RunningPane
from meshllm_tui.widgets.splits_pane import SplitsPane

OWNERS = {
    "anywhere": MeshApp,
    "page": Page,
    "certify": CertifyPage,
    "settings": SettingsPage,
    "node": NodePane,
    "models": ModelsPane,
    "invite": InvitePane,
    "invites": InvitesPane,
    "join": JoinPane,
    "chat": ChatPane,
    "chats": ChatsPane,
    "log": LogPane,
    "mesh": MeshPane,
    "split": SplitDesk,
    "splits": SplitsPane,
    "plan": PlanDesk,
    "candidates": CandidatesPane,
    "running": RunningPane,
    "library": LibraryPane,
    "catalog": CatalogPane,
    "downloads": DownloadsPane,
    "requests": RequestsPane,
    "request": RequestPane,
    "connect": ConnectPane,
    "activity": ActivityPane,
    "logs": LogsPane,
}
"""The widget that has the keys of each place."""
PANES = [name for name, place in PLACES.items() if place.page]
UNSAFE = {"ctrl+b", "ctrl+a", "ctrl+s", "ctrl+o", "ctrl+space", "ctrl+c", "ctrl+enter", "ctrl+z"}
"""Keys that multiplexers, terminals and shells take, or that people expect to copy."""


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_has_a_method_and_words(action: Action) -> None:
    assert callable(getattr(OWNERS[action.place], f"action_{action.method.partition('(')[0]}"))
    assert action.help.endswith(".")
    assert action.label
    assert len(action.keys.split(",")) == len(action.shown.split(", "))
    assert not UNSAFE & set(action.keys.split(","))


def test_every_place_has_an_owner() -> None:
    assert set(OWNERS) == set(PLACES)


def test_ids_are_unique() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)


@pytest.mark.parametrize("place", PANES)
def test_no_key_means_two_things_in_one_place(place: str) -> None:
    keys = [
        key
        for action in ACTIONS
        if action.place in ("anywhere", "page", place)
        for key in action.keys.split(",")
        if key
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("place", PANES)
def test_the_footer_has_at_most_eight_keys(place: str) -> None:
    shown = [
        action
        for action in ACTIONS
        if action.footer in (True, place) and action.place in ("anywhere", "page", place)
    ]
    assert 4 <= sum(1 for action in shown if action.keys) <= 9


def test_bindings_carry_ids_and_tool_tips() -> None:
    for binding in bindings_of("anywhere", "page", "models"):
        assert isinstance(binding, Binding)
        assert binding.id in {action.id for action in ACTIONS}
        assert binding.tooltip


def test_help_lists_every_key() -> None:
    rows = {row for _, rows in help_rows({}) for row in rows}
    for action in ACTIONS:
        if action.keys:
            assert (action.shown, action.help) in rows
