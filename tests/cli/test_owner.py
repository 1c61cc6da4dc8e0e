"""`meshllm owner`: from a key to a signed node on another machine, and whom to trust."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from meshllm_core.errors import ExitCode
from meshllm_core.identity.storage import load_or_create
from meshllm_core.ids import NodeId
from meshllm_core.membership.owner import sign_node, to_text
from meshllm_core.membership.trust import judge
from meshllm_core.mesh.owner_store import PASSPHRASE, OwnerStore
from meshllm_core.paths import Paths, default_paths
from tests.cli.conftest import COMMAND, SECONDS, Result
from tests.membership.founding import key

Run = Callable[..., Result]
SOMEBODY = "ab" * 32
CERTIFICATE = to_text(sign_node(key("x"), key("y").public, wall=1.0))


@pytest.fixture
def node(paths: Paths) -> NodeId:
    return load_or_create(paths, use_keyring=False).key.public


def test_an_owner_signs_two_machines(meshllm: Run, node: NodeId, tmp_path: Path) -> None:
    made = meshllm("owner", "init", "--label", "attic", "--json").document
    assert (made["encrypted"], made["certificate"]["node"]) == (False, node.hex())
    shown = meshllm("owner", "status", "--json").document
    assert (shown["owner"], shown["status"]) == (made["owner"], "verified")
    assert "verified" in meshllm("owner", "status").out

    elsewhere = default_paths({"MESHLLM_HOME": str(tmp_path)})
    other = load_or_create(elsewhere, use_keyring=False).key.public
    signed = meshllm("owner", "sign", other.hex(), "--label", "cellar", "--days", "30")
    assert signed.out.startswith("MESHLLM-OWNER:") and "owner install" in signed.err
    wrong = meshllm("owner", "install", signed.out)
    assert (wrong.code, "is for node" in wrong.err) == (ExitCode.MESH, True)
    installed = meshllm("owner", "install", "-", stdin=signed.out, MESHLLM_HOME=str(tmp_path))
    assert (installed.code, "cellar" in installed.out) == (0, True)
    seen = meshllm("owner", "status", "--json", MESHLLM_HOME=str(tmp_path)).document
    assert (seen["status"], seen["owner"]) == ("untrusted_owner", None)
    meshllm("owner", "trust", "add", made["owner"], MESHLLM_HOME=str(tmp_path))
    assert meshllm("owner", "status", "--json", MESHLLM_HOME=str(tmp_path)).document["status"] == "verified"
    span = seen["certificate"]["expires_at"] - seen["certificate"]["issued_at"]
    assert span == pytest.approx(30 * 86_400)


def test_this_node_is_signed_and_its_certificate_kept(meshllm: Run, node: NodeId, paths: Paths) -> None:
    meshllm("owner", "init")
    document = meshllm("owner", "sign", "this", "--json").document
    assert (document["installed"], document["node"]) == (True, node.hex())
    store = OwnerStore(paths)
    assert judge("allowlist", store.trust(), store.certificate(), node, document["issued_at"]).admits


def test_a_passphrase_comes_from_the_environment_or_stdin(meshllm: Run, node: NodeId, paths: Paths) -> None:
    assert meshllm("owner", "init", "--passphrase", "--json", **{PASSPHRASE: "secret"}).document["encrypted"]
    assert meshllm("owner", "sign", node.hex(), stdin="secret\n").code == 0
    wrong = meshllm("owner", "sign", node.hex(), stdin="other\n")
    assert (wrong.code, wrong.out) == (ExitCode.NODE, "")
    assert "passphrase of the owner's key is wrong" in wrong.err
    empty = meshllm("owner", "sign", node.hex())
    assert (empty.code, PASSPHRASE in empty.err) == (ExitCode.USAGE, True)
    assert "is not a variable" not in meshllm("config", **{PASSPHRASE: "secret"}).err


def test_on_a_terminal_the_passphrase_is_asked_for_twice_and_not_shown(node: NodeId) -> None:
    main, other = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "owner", "init", "--passphrase", "--json"],
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=other,
        start_new_session=True,
        env=dict(os.environ),
    )
    os.close(other)
    try:
        shown = b""
        for question in (b"owner's key: ", b"Once more: "):
            while question not in shown:
                shown += os.read(main, 1024)
            os.write(main, b"secret\n")
        out, _ = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
        os.close(main)
    assert child.returncode == 0 and b'"encrypted": true' in out
    assert b"secret" not in shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sign", SOMEBODY), ExitCode.NODE, "meshllm owner init"),
        (("sign", "this"), ExitCode.NODE, "no node id yet"),
        (("sign", "nonsense"), ExitCode.USAGE, "64 hex digits"),
        (("sign", SOMEBODY, "--days", "0"), ExitCode.USAGE, "--days"),
        (("install", "nonsense"), ExitCode.MESH, "begins with MESHLLM-OWNER:"),
        (("install", CERTIFICATE), ExitCode.NODE, "no node id yet"),
        (("revoke", "\x1b[31m"), ExitCode.USAGE, "is no id"),
        (("revoke", SOMEBODY, "--undo"), ExitCode.USAGE, "is not revoked"),
        (("trust", "remove", SOMEBODY), ExitCode.USAGE, "is not trusted"),
        (("trust", "add", SOMEBODY, "--label", "x" * 65), ExitCode.USAGE, "64 characters"),
        (("init", "--passphrase"), ExitCode.USAGE, "No passphrase"),
    ],
    ids=lambda value: " ".join(value[:2]).strip("\x1b") if isinstance(value, tuple) else None,
)
def test_failures_say_what_to_do(
    meshllm: Run, arguments: tuple[str, ...], code: ExitCode, words: str
) -> None:
    result = meshllm("owner", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err and "\x1b" not in result.err


def test_a_certificate_that_does_not_hold_is_refused(meshllm: Run, node: NodeId) -> None:
    result = meshllm("owner", "install", "MESHLLM-OWNER:AAAA")
    assert (result.code, "cannot be read" in result.err) == (ExitCode.MESH, True)


def test_a_second_key_is_not_made_over_the_first(meshllm: Run, node: NodeId) -> None:
    first = meshllm("owner", "init", "--json").document["owner"]
    again = meshllm("owner", "init")
    assert (again.code, "already" in again.err) == (ExitCode.NODE, True)
    assert meshllm("owner", "status", "--json").document["owner"] == first


def test_trust_and_revocation(meshllm: Run, paths: Paths) -> None:
    assert "Nobody is trusted" in meshllm("owner", "trust", "list").err
    meshllm("owner", "trust", "add", SOMEBODY.upper(), "--label", "bob")
    assert meshllm("owner", "trust", "list", "--json").document == {
        "trusted": [{"id": SOMEBODY, "label": "bob"}],
        "revoked": [],
    }
    revoked = meshllm("owner", "revoke", SOMEBODY, "--json").document
    assert revoked == {"id": SOMEBODY, "revoked": True}
    assert "revoked" in meshllm("owner", "trust", "list").out
    assert not OwnerStore(paths).trust().trusts(bytes.fromhex(SOMEBODY))
    assert meshllm("owner", "revoke", SOMEBODY, "--undo").code == 0
    meshllm("owner", "trust", "add", SOMEBODY)
    assert meshllm("owner", "trust", "remove", SOMEBODY, "--json").document["trusted"] is False
    assert meshllm("owner", "trust", "list", "--json").document == {"trusted": [], "revoked": []}


def test_an_owner_does_not_revoke_itself(meshllm: Run) -> None:
    made = meshllm("owner", "init", "--json").document
    assert made["certificate"] is None
    result = meshllm("owner", "revoke", made["owner"])
    assert (result.code, "owner of this machine" in result.err) == (ExitCode.USAGE, True)


def test_a_label_from_elsewhere_does_not_command_the_terminal(
    meshllm: Run, node: NodeId, paths: Paths
) -> None:
    OwnerStore(paths).install(sign_node(key("x"), node, wall=1.0, label="\x1b[2J\u202eevil"), node)
    for command in (("status",), ("status", "--json")):
        out = meshllm("owner", *command).out
        assert "\x1b" not in out and ("\u202e" not in out or "--json" in command)
