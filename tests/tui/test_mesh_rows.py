"""What the mesh pane and the node pane say of members, in every state."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshllm_core.state import mesh_events as mesh
from meshllm_core.state.snapshot import NodeSnapshot
from meshllm_tui.chat_models import chat_models
from meshllm_tui.cleaning import cells
from meshllm_tui.member_facts import FACT_ROWS, fact_lines, member_facts, member_page, own_facts
from meshllm_tui.mesh_rows import OWN, TABLE_WIDTH, MemberRows, empty_mesh, header
from meshllm_tui.mesh_words import PEER_STATES, PUBLICATIONS, mesh_status, version_words
from meshllm_tui.node_rows import mesh_facts, routed_facts
from meshllm_tui.present import NodeView, plain, status_line
from tests.tui.mesh_samples import OWN as OWN_ID
from tests.tui.mesh_samples import joined, many, meshed, model, node_id, peer
from tests.tui.samples import START, bare, fold, serving

NOW = START + 200.0


def live(snapshot: NodeSnapshot, wall: float = NOW) -> NodeView:
    return NodeView(snapshot=snapshot, link="live", wall=wall)


def text_of(*rows: mesh.PeerRow, width: int = 116) -> str:
    _, lines = MemberRows().rows(live(meshed(*rows)), width)
    return "\n".join(plain(each) for each in lines)


def row_of(width: int = 116, **changes: Any) -> str:
    """What is said of one member."""
    return text_of(peer("attic", **changes), width=width).split("\n", 1 if width >= TABLE_WIDTH else 2)[-1]


def test_a_member_in_the_table() -> None:
    assert re.split(r"\s{2,}", row_of()) == [
        "attic",
        "● alive",
        "host",
        "1.2 ms",
        "tls",
        "41.2",
        "21.0 of 32.0 GiB",
        "Qwen3-4B-Instruct:Q4_K_M",
    ]
    assert plain([header(116)]).split() == [
        "Member",
        "State",
        "Role",
        "RTT",
        "Path",
        "tok/s",
        "Memory",
        "free",
        "Models",
    ]


def test_a_member_on_two_lines() -> None:
    lines = row_of(72).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["attic", "● alive", "host", "1.2 ms tls"]
    assert lines[1].strip() == "Qwen3-4B-Instruct:Q4_K_M  41.2 tok/s  21.0 of 32.0 GiB free"
    assert header(72) == ()


def test_this_node_comes_first_and_is_marked() -> None:
    keys, lines = MemberRows().rows(live(meshed()), 116)
    assert keys[0] == OWN
    assert re.split(r"\s{2,}", plain(lines[0]))[:3] == ["workshop", "◆ this node", "host"]


def test_members_stand_by_name_and_those_that_are_gone_last() -> None:
    keys, _ = MemberRows().rows(live(meshed()), 116)
    assert keys[1:] == [node_id(name) for name in ("attic", "cellar", "garage", "phone", "laptop")]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reach": "outgoing_only"}, "└ outgoing only: it reaches others, nobody reaches it"),
        ({"reach": "no_path", "seen_through": "cellar"}, "└ no path from here, seen through cellar"),
        ({"reach": "no_path"}, "└ no path from here"),
        ({"version": "0.0.9"}, "└ older version 0.0.9"),
        ({"version": "0.2.0"}, "└ newer version 0.2.0"),
        ({"clock_skew": 7.0}, "└ its clock is 7 s ahead"),
        ({"clock_skew": -7200.0}, "└ its clock is 2 h behind"),
        ({"detail": "two machines use this key"}, "└ two machines use this key"),
        ({"status": "suspect"}, "└ does not answer"),
        ({"status": "down", "since": NOW - 180}, "└ stopped answering 3 min ago"),
        ({"status": "left", "since": NOW - 60}, "└ said goodbye 1 min ago"),
        ({"rtt_ms": 31.0, "rtt_source": "reported"}, "31 ms reported"),
        ({"rtt_source": "unknown"}, "host    –"),
        ({"models": ()}, "no model"),
    ],
)
@pytest.mark.parametrize("width", [116, 72])
def test_what_is_not_as_it_should_be_is_said(changes: dict[str, Any], words: str, width: int) -> None:
    assert words in row_of(width, **changes)
    assert words not in row_of(width)


def test_a_clock_that_is_near_enough_is_not_named() -> None:
    assert "clock" not in row_of(clock_skew=4.9)
    assert "└" not in row_of()


@pytest.mark.parametrize("width", [36, 44, 46, 52, 54, 60, 74])
def test_how_near_a_member_is_is_told_whole_at_every_width(width: int) -> None:
    """The role goes first, then the latest round trips."""
    first = row_of(width, rtt_ms=123.0, path="relay").splitlines()[0]
    assert "123 ms relay" in first
    assert "…" not in first
    assert cells(first) <= width
    assert ("host" in first) == (width >= 46)


def test_models_that_answer_come_first() -> None:
    models = (model("slow", "loading"), model("fast"))
    assert row_of(models=models).endswith("fast, slow (loading)")


def test_paused_and_blocked_members_are_said_to_be_so() -> None:
    assert "└ its owner paused lending" in row_of(lending_paused=True)
    snapshot = meshed(peer("attic"))
    assert snapshot.mesh is not None
    blocked = msgspec.structs.replace(snapshot.mesh, blocked=(node_id("attic"),))
    rows, view = MemberRows(), live(snapshot)
    before = plain(rows.rows(view, 116)[1][1])
    after = plain(rows.rows(live(msgspec.structs.replace(snapshot, mesh=blocked)), 116)[1][1])
    assert "● alive" in before
    assert "⊘ blocked" in after
    assert "blocked here: b talks to it again" in after


def test_of_a_blocked_member_the_block_is_told_and_not_the_path_that_it_ended() -> None:
    snapshot = meshed(peer("attic", reach="no_path", detail="No path from here.", path="", address=""))
    assert snapshot.mesh is not None
    blocked = msgspec.structs.replace(snapshot.mesh, blocked=(node_id("attic"),))
    view = live(msgspec.structs.replace(snapshot, mesh=blocked))
    page = plain(member_page(snapshot.peers[0], view, 76))
    assert "Reach     blocked here: b talks to it again" in page
    assert "path from here" not in page
    assert "no path from here" in plain(member_page(snapshot.peers[0], live(snapshot), 76))


@pytest.mark.parametrize("width", [50, 60, 76])
def test_facts_of_a_member_go_on_below_their_own_words(width: int) -> None:
    row = peer("attic", detail="no answer to three pings, and other members were asked " * 3, may_invite=True)
    for each in plain(member_page(row, live(meshed(row)), width)).splitlines():
        assert cells(each) <= width
        assert not each or each[0].isupper() or each[0] in " ●"


@pytest.mark.parametrize(
    ("changes", "heard", "lends"),
    [
        ({}, "just now: it answers a ping every 2 s", "no memory for stages"),
        ({"memory_lent": 4 << 30}, "just now", "4.0 GiB for stages of others' models"),
        ({"path": "", "seen_through": "cellar"}, "just now, through cellar", "no memory"),
        ({"status": "suspect", "since": NOW - 9}, "has not answered for 9 s", "no memory"),
        ({"status": "down", "since": NOW - 60}, "1 min ago", "no memory"),
        ({"lending_paused": True}, "just now", "nothing: its owner paused lending"),
        ({"role": "client"}, "just now", "nothing: it is a client"),
    ],
)
def test_a_members_page_says_when_it_was_heard_and_what_it_lends(
    changes: dict[str, Any], heard: str, lends: str
) -> None:
    row = peer("attic", **changes)
    lines = plain(member_page(row, live(meshed(row)), 76)).splitlines()
    assert heard in next(line for line in lines if line.startswith("Heard"))
    assert lends in next(line for line in lines if line.startswith("Lends"))
    assert "41.2 tok/s" in "\n".join(lines)


def test_a_trend_shows_once_round_trips_were_watched() -> None:
    view = live(meshed(peer("attic", rtt_ms=2.0)))
    assert view.snapshot is not None
    assert "RTT" not in [label for label, _, _ in member_facts(view.snapshot.peers[0], view)]
    view.rtts.take(view.snapshot, NOW)
    view.rtts.take(meshed(peer("attic", rtt_ms=1.0)), NOW + 3)
    facts = {label: words for label, words, _ in member_facts(view.snapshot.peers[0], view)}
    assert facts["RTT"] == "█▅  1.0 to 2.0 ms"
    assert "█▅" in plain(MemberRows().rows(view, 130)[1][1])
    assert "█▅" in plain(MemberRows().rows(view, 72)[1][1])


def test_two_machines_of_one_name_are_told_apart() -> None:
    twin = peer("attic", node=node_id("other"))
    text = text_of(peer("attic"), twin)
    assert f"attic {node_id('attic')[:8]}" in text
    assert f"attic {node_id('other')[:8]}" in text
    assert text.count("another member has this name") == 2


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ("0.1.0", "0.1.0", ""),
        ("0.9", "0.10", "older version 0.9"),
        ("1.0.0rc1", "1.0.0", ""),
        ("", "0.1.0", ""),
        ("nonsense", "0.1.0", ""),
        ("9" * 40, "0.1.0", f"newer version {'9' * 19}…"),
    ],
)
def test_versions_are_compared_by_their_numbers(theirs: str, ours: str, words: str) -> None:
    assert version_words(peer("x", version=theirs), ours) == words


def test_facts_of_a_member() -> None:
    view = live(meshed())
    assert view.snapshot is not None
    row = view.snapshot.peers[1]
    facts = {label: words for label, words, _ in member_facts(row, view)}
    assert facts == {
        "Address": "192.168.1.30:9440 by QUIC",
        "Heard": "just now: it answers a ping every 2 s",
        "Reach": "outgoing only: it reaches others, nobody reaches it",
        "Version": "0.1.0",
        "Devices": "CUDA0 NVIDIA GeForce RTX 4090",
        "Owner": "verified 3fa94c21",
        "Admitted": "by attic, ends in 364 days",
        "Clock": "its clock is 42 s behind this node's",
        "Id": node_id("cellar"),
    }
    ended = msgspec.structs.replace(row, expires_at=NOW - 1, admitted_by=OWN_ID, may_invite=True)
    assert ("Admitted", "by this node, has ended, may invite", "plain") in list(member_facts(ended, view))
    for width in (116, 76, 40):
        lines = fact_lines(member_facts(row, view), width)
        assert len(lines) == FACT_ROWS
        assert all(cells(plain([each])) <= width for each in lines)
    page = plain(member_page(row, view, 76))
    assert node_id("cellar")[:32] in page
    assert "● ready  gemma-3-12b:Q4_K_M  41.2 tok/s  4.0B  1 active, 0 queued" in page


def test_facts_of_this_node() -> None:
    facts = {label: words for label, words, _ in own_facts(live(meshed()))}
    assert facts["Told"] == "192.168.1.20:9440, [fd00::20]:9440"
    assert facts["Role"] == "host, founder, may invite"
    assert facts["Id"] == OWN_ID


def test_a_node_by_itself_is_told_what_to_press() -> None:
    words = plain(empty_mesh(live(bare()), 100)).splitlines()
    assert words[0] == "This node is by itself. Press v to invite a machine, J to join one."
    assert "  e  copies http://127.0.0.1:9337/v1: what chat apps are told" in words
    assert "  l  loads a model: no model is loaded yet" in words
    assert "  7  chats with SmolLM2-135M-Instruct" in plain(empty_mesh(live(serving()), 100)).splitlines()
    assert plain(empty_mesh(NodeView(started_by_us=True), 100)) == "◌ starting the node…"


def test_the_status_line_tells_the_mesh() -> None:
    snapshot = meshed()
    assert plain([mesh_status(snapshot)]) == "◇ private  home 3 of 5 others alive"
    assert plain([status_line(live(snapshot), mesh_status(snapshot))]).startswith(
        "meshllm  workshop  ● serving  ◇ private  home 3 of 5 others alive  http"
    )
    failed = mesh.PublicationChanged(at=START, publication="publish_failed", detail="no relay answered")
    words = plain([mesh_status(fold(failed, snapshot=snapshot))])
    assert words.startswith("! publish failed: no relay answered  home")
    alone = meshed(peer("attic", status="down"))
    assert "! disconnected: no other member answers" in plain([mesh_status(alone)])
    assert "no other member yet" in plain([mesh_status(meshed(peer("attic", status="left")))])
    assert mesh_status(bare()) == ()


def test_the_node_pane_tells_addresses_reach_and_refusals() -> None:
    text = plain(mesh_facts(meshed(), 41))
    for words in (
        "Refused  3 wrong key, 1 forged announcement",
        "Mesh     home, host, founder",
        "Reach    both ways",
        "Told     192.168.1.20:9440",
        "Not told 172.17.0.1 on docker0: a bridge of containers",
        "         10.8.0.2 on tun0: a VPN",
        "Key      kept in this machine's keyring",
    ):
        assert words.rstrip("…")[:40] in text
    assert re.search(r"Id +c0ffee12\S*…  c copies it", text)
    assert "Listed" not in text
    public = fold(mesh.PublicationChanged(at=START, publication="public"), snapshot=meshed())
    assert "Listed   ◈ public" in plain(mesh_facts(public, 41))


@pytest.mark.parametrize(
    ("udp", "tcp", "words"),
    [
        (None, None, "not measured yet"),
        (True, True, "both ways"),
        (True, False, "TCP does not get in"),
        (False, False, "outgoing only: this node reaches others, nobody reaches it"),
    ],
)
def test_whether_others_reach_this_node_is_said(udp: bool | None, tcp: bool | None, words: str) -> None:
    measured = mesh.ReachMeasured(at=NOW, accepts_udp=udp, accepts_tcp=tcp)
    assert words in plain(mesh_facts(fold(measured, snapshot=meshed()), 80))


def test_requests_say_who_served_them() -> None:
    text = plain(routed_facts(meshed(), 80))
    assert "Routed   SmolLM2-135M-Instruct for attic, running" in text
    assert "cellar answers with gemma-3-12b:Q4_K_M, running" in text


def test_the_chat_is_offered_what_any_linked_member_holds() -> None:
    offered = {str(each.id): each.words for each in chat_models(meshed())}
    assert list(offered) == ["SmolLM2-135M-Instruct", "Qwen3-4B-Instruct:Q4_K_M", "gemma-3-12b:Q4_K_M"]
    assert offered["gemma-3-12b:Q4_K_M"] == "gemma-3-12b:Q4_K_M on cellar"
    assert chat_models(meshed(peer("attic", path="", address=""), peer("shed", status="suspect")))[1:] == ()
    crowd = meshed(*(peer(f"m{n}", models=(model(f"x{n}"),)) for n in range(600)))
    assert len(chat_models(crowd)) == 501


def test_rows_of_members_that_did_not_change_are_not_made_again() -> None:
    made, snapshot = MemberRows(), meshed(*many(50))
    _, first = made.rows(live(snapshot), 116)
    changed = msgspec.structs.replace(snapshot.peers[7], rtt_ms=500.0)
    _, second = made.rows(live(fold(*joined(changed), snapshot=snapshot), NOW + 1), 116)
    differing = [place for place in range(51) if first[place] is not second[place]]
    assert differing == [0, 8], "this node's own row, and the one that changed"


def test_every_state_has_its_own_word_and_glyph() -> None:
    for states in (list(PEER_STATES.values()), list(PUBLICATIONS.values())):
        assert len({state.word for state in states}) == len(states)
        assert len({state.glyph for state in states}) == len(states)


NASTY = st.text(
    alphabet=st.sampled_from("\x1b[31m\u202e\u200b\x00\n\t日本abc[red]/" + "é\u0301🙂"), max_size=60
)


@settings(max_examples=60, deadline=None)
@given(
    NASTY,
    NASTY,
    st.floats(allow_nan=False, min_value=-1e15, max_value=1e15),
    st.integers(0, 1 << 62),
    st.sampled_from([20, 40, 56, 72, 96, 116, 200]),
)
def test_whatever_a_member_says_its_row_fits(
    name: str, words: str, number: float, amount: int, width: int
) -> None:
    row = peer(
        name or "x",
        name=name,
        version=words,
        address=words,
        addresses=(words,),
        detail=words,
        devices=(words,),
        owner=words,
        seen_through=words,
        reach="no_path",
        rtt_ms=abs(number),
        clock_skew=number,
        expires_at=number,
        since=number,
        memory_total=amount,
        memory_free=amount,
        models=(model(words or "m", speed=abs(number)),),
    )
    view = live(meshed(row))
    _, lines = MemberRows().rows(view, width)
    facts = [fact_lines(member_facts(row, view), width)]
    for lines_of_one in (*lines, *facts):
        for each in lines_of_one:
            text = plain([each])
            assert cells(text) <= max(width, 64)
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u200b]", text)
    assert "\x1b" not in plain(member_page(row, view, width))


def test_ten_thousand_characters_and_two_hundred_thousand_models_are_cut() -> None:
    row = peer("x" * 10_000, models=(model("m" * 1000),) * 3000, devices=("d" * 5000,) * 100)
    for width in (116, 72):
        for each in text_of(row, width=width).splitlines():
            assert cells(each) <= width
    assert len(plain(member_page(row, live(meshed(row)), 76))) < 20_000
