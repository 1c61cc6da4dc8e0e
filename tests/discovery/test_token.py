"""The invite as text: short, forgiving to how people hand it on, exact about what is wrong with it."""

import base64
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from qrcode.util import ALPHA_NUM

from meshllm_core.discovery import groups, invite, qr
from meshllm_core.discovery.token import PREFIX, Endpoint, Invite, compact, decode, encode, fitting, mask
from meshllm_core.errors import TokenInvalid
from meshllm_core.ids import MeshId, NodeId
from meshllm_core.log import mask as mask_line

INVITE = Invite(
    node=NodeId(bytes(range(32))),
    secret=bytes(range(100, 116)),
    mesh=bytes(range(200, 208)),
    expires_at=1_800_000_000,
    addresses=(Endpoint("192.168.1.20", 9338), Endpoint("10.0.0.3", 9338)),
)
TOKEN = encode(INVITE)
GROUPS = TOKEN.removeprefix(PREFIX).split("-")

hosts = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).filter(
    lambda address: not (address.is_multicast or address.is_unspecified)
)
endpoints = st.lists(st.tuples(hosts.map(str), st.integers(1, 65_535)), max_size=4)
invites = st.builds(
    Invite,
    node=st.binary(min_size=32, max_size=32).map(NodeId),
    secret=st.binary(min_size=16, max_size=16),
    mesh=st.binary(min_size=8, max_size=8),
    expires_at=st.integers(0, (1 << 32) - 1),
    addresses=endpoints.map(fitting),
    role=st.sampled_from(["host", "client"]),
)
places = st.integers(0, len(TOKEN) - len(PREFIX) - 1).map(lambda place: place + len(PREFIX))


def fault(text: str) -> str:
    """What is said of a text that is no whole token."""
    with pytest.raises(TokenInvalid) as caught:
        decode(text)
    assert caught.value.hint
    return caught.value.message


@given(invites)
def test_what_was_encoded_is_decoded(made: Invite) -> None:
    assert decode(encode(made)) == made
    assert decode(compact(encode(made))) == made


@given(invites)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_token_fits_a_qr_code_of_version_6(made: Invite) -> None:
    text = compact(encode(made))
    assert set(text.encode()) <= set(ALPHA_NUM)
    assert qr.version(qr.matrix(text)) <= 6


def test_the_usual_token_with_two_addresses_fits_a_qr_code_of_version_5() -> None:
    assert qr.version(qr.matrix(compact(TOKEN))) == 5


@given(invites, st.data())
def test_one_wrong_character_is_noticed_and_its_group_named(made: Invite, data: st.DataObject) -> None:
    token = encode(made)
    place = data.draw(st.integers(len(PREFIX), len(token) - 1).filter(lambda at: token[at] != "-"))
    other = data.draw(st.sampled_from(groups.ALPHABET + "9é").filter(lambda c: c != token[place]))
    wrong = token[:place] + other + token[place + 1 :]
    number = token[:place].count("-") + 1
    group = wrong.removeprefix(PREFIX).split("-")[number - 1].upper()
    for text in (wrong, compact(wrong)):
        assert f"group {number} (`{group}`) is mistyped" in fault(text)


@given(places)
def test_a_missing_character_is_noticed(place: int) -> None:
    for whole in (TOKEN, compact(TOKEN)):
        at = min(place, len(whole) - 1)
        if whole[at] == "-":
            assert decode(whole[:at] + whole[at + 1 :]) == INVITE
        else:
            fault(whole[:at] + whole[at + 1 :])


@given(places, places)
@example(len(PREFIX), len(PREFIX) + 1)
def test_two_exchanged_characters_are_noticed(one: int, two: int) -> None:
    characters = list(TOKEN)
    characters[one], characters[two] = characters[two], characters[one]
    if characters != list(TOKEN) and "-" not in (TOKEN[one], TOKEN[two]):
        fault("".join(characters))


@given(st.integers(0, len(GROUPS) - 1), st.integers(0, len(GROUPS) - 1))
def test_groups_that_changed_places_are_noticed(one: int, two: int) -> None:
    parts = list(GROUPS)
    parts[one], parts[two] = parts[two], parts[one]
    if one != two:
        fault(PREFIX + "-".join(parts))


@given(st.text(max_size=400))
@example("MESHLLM:")
@example("meshllm:" * 40)
@example("1" * 200)
@example(TOKEN[:20] + "ß" * 200)
def test_any_text_is_an_invite_or_refused(text: str) -> None:
    for given_text in (text, PREFIX + text, TOKEN[:60] + text):
        try:
            decode(given_text)
        except TokenInvalid as error:
            assert error.message and error.hint


@given(st.binary(min_size=invite.FIXED_BYTES, max_size=invite.FIXED_BYTES + 54))
def test_any_bytes_with_true_checks_are_an_invite_or_refused(data: bytes) -> None:
    try:
        read = decode(PREFIX + "-".join(groups.write(data)))
    except TokenInvalid:
        return
    assert decode(encode(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        TOKEN.lower(),
        f'  "{TOKEN}"\n',
        f"`{TOKEN}`",
        compact(TOKEN),
        TOKEN.replace("-", " "),
        TOKEN.replace("-", "–"),
        f"> {TOKEN[:50]}\n> {TOKEN[50:100]}\r\n> {TOKEN[100:]}",
        f"Hi, join with {TOKEN} or tell me if it fails",
        f"run meshllm: it wants {TOKEN}.",
        TOKEN.replace(PREFIX, "meshllm://"),
        TOKEN.replace(PREFIX, "Meshllm: "),
        TOKEN.removeprefix(PREFIX),
        TOKEN[:30] + "\u200b" + TOKEN[30:],
        PREFIX + TOKEN.removeprefix(PREFIX).translate(str.maketrans("OBIL", "0811")),
        f"{TOKEN[:90]}\n{TOKEN}",
    ],
)
def test_it_is_read_as_people_hand_it_on(text: str) -> None:
    assert decode(text) == INVITE


def test_i_and_l_are_told_apart_by_the_check() -> None:
    for letters in ("IL", "LI", "II", "LL"):
        data = base64.b32decode(f"{letters}AAAAAA")[:4]
        (group,) = groups.write(data)
        assert group.startswith(letters)
        assert groups.repaired("1" + group[1:], 1) == group


def test_faults_are_told_apart() -> None:
    foreign = base64.urlsafe_b64encode(json.dumps({"id": "ab" * 32, "addrs": []}).encode()).decode()
    newer = PREFIX + "-".join(groups.write(bytes([2]) + bytes(80)))
    told = {
        "nothing": fault("  \n"),
        "no token": fault("hello there"),
        "prose": fault("meshllm: is a program"),
        "letter": fault("hello\nno invite here\n"),
        "cut": fault(TOKEN[:-5]),
        "mistyped": fault(TOKEN.replace(GROUPS[6], GROUPS[6][::-1])),
        "long": fault(TOKEN + "ABC"),
        "huge": fault("x" * 20_000),
        "newer": fault(newer),
        "foreign": fault(f"--join {foreign.rstrip('=')}"),
        "no start": fault(TOKEN[len(PREFIX) + 9 :]),
    }
    assert told["cut"] == "This invite is cut off: 4 characters are missing at its end."
    assert f"group 7 (`{GROUPS[6][::-1]}`) is mistyped" in told["mistyped"]
    assert "newer version" in told["newer"]
    assert "Mesh LLM" in told["foreign"]
    assert "starts with group 2" in told["no start"]
    assert "3 characters too many" in told["long"]
    assert told["prose"] == told["no token"] == told["letter"]
    assert len(set(told.values())) == len(told) - 2


def test_no_text_without_the_start_of_a_token_is_taken_for_one_of_a_newer_version() -> None:
    for number in range(2000):
        assert "newer" not in fault(f"what was written on day {number} of the journey")
        assert "newer" not in fault(base64.b32encode(number.to_bytes(8, "big") * 4).decode())


def test_groups_of_a_wrong_length_are_counted() -> None:
    at = len(PREFIX) + 9 * 4 + 3
    assert f"Group 5 of this invite (`{GROUPS[4][:3] + GROUPS[4][4:]}`) has 7" in fault(
        TOKEN[:at] + TOKEN[at + 1 :]
    )
    assert "has 9 characters" in fault(TOKEN[:at] + "A" + TOKEN[at:])
    assert "Group 1 of this invite" in fault(TOKEN[: len(PREFIX)] + TOKEN[len(PREFIX) + 1 :])


def test_what_no_token_can_carry_is_left_out_or_refused() -> None:
    offered = [("nas.local", 1), ("0.0.0.0", 1), ("224.0.0.1", 1), ("fe80::1%eth0", 1), ("10.0.0.1", 0)]
    assert fitting(offered) == ()
    assert fitting([("2001:db8::0:1", 7), ("fd00::1", 7), ("10.0.0.1", 7)]) == (
        Endpoint("2001:db8::1", 7),
        Endpoint("fd00::1", 7),
    )
    with pytest.raises(TokenInvalid):
        Invite(INVITE.node, b"short", INVITE.mesh)
    with pytest.raises(TokenInvalid):
        Invite(INVITE.node, INVITE.secret, INVITE.mesh, addresses=(Endpoint("0.0.0.0", 1),))


def test_expiry_and_mesh() -> None:
    assert INVITE.expired(1_800_000_000)
    assert not INVITE.expired(1_799_999_999)
    assert not Invite(INVITE.node, INVITE.secret, INVITE.mesh).expired(1e10)
    assert INVITE.leads_to(MeshId(bytes(range(200, 232))))
    assert not INVITE.leads_to(MeshId(bytes(32)))


def test_the_secret_is_not_shown() -> None:
    assert INVITE.secret.hex() not in repr(INVITE)
    assert repr(INVITE.secret) not in repr(INVITE)
    assert mask(TOKEN) == "MESHLLM:•••"


@pytest.mark.parametrize("text", [TOKEN, TOKEN.lower(), compact(TOKEN), TOKEN.replace("-", " "), TOKEN[:60]])
def test_no_log_line_shows_a_token(text: str) -> None:
    line = mask_line(f"joining with '{text}' now")
    assert line.startswith("joining with 'MESHLLM:•••" if text.isupper() else "joining with 'meshllm:•••")
    assert not any(group.lower() in line.lower() for group in GROUPS[:-1])
    assert line.endswith("now")
