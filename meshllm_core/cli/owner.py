"""`meshllm owner`: whose machines these are, and whose are trusted."""

import getpass
import os
import sys
import time
from typing import Annotated

import typer

from meshllm_core.cli.diagnostics import say
from meshllm_core.cli.options import AsJson
from meshllm_core.cli.output import clean, emit, emit_json, fields, table
from meshllm_core.cli.text import moment
from meshllm_core.errors import ConfigError, IdentityError, ProofInvalid
from meshllm_core.identity.keys import SigningKey
from meshllm_core.identity.storage import known_identity
from meshllm_core.ids import NodeId
from meshllm_core.membership.certificates import DAY
from meshllm_core.membership.owner import OwnerCertificate, from_text, read_owner, sign_node, to_text
from meshllm_core.membership.trust import Entry, judge
from meshllm_core.mesh.owner_store import PASSPHRASE, OwnerStore
from meshllm_core.paths import default_paths
from meshllm_core.wire import limits

app = typer.Typer(help="Say whose machines these are, and whose you trust.", no_args_is_help=True)
trust_app = typer.Typer(help="Trust owners, or no longer.", no_args_is_help=True)
app.add_typer(trust_app, name="trust")

OWN = "this"
PASSPHRASE_BYTES = 1024
Locked = Annotated[
    bool, typer.Option("--passphrase", help=f"Lock the key with a passphrase: asked for, or ${PASSPHRASE}.")
]
Node = Annotated[
    str, typer.Argument(metavar="NODE_ID", help=f"The node's id, as `meshllm id` shows it; or `{OWN}`.")
]
Label = Annotated[str, typer.Option("--label", metavar="TEXT", help="Your name for it.")]
Days = Annotated[int, typer.Option("--days", metavar="N", min=1, max=365, help="How long it is valid.")]
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="The owner's id: 64 hex digits.")]


@app.command()
def init(passphrase: Locked = False, label: Label = "", as_json: AsJson = False) -> None:
    """Make an owner's key on this machine, trust it, and sign this node with it."""
    store = OwnerStore(default_paths())
    secret = _passphrase(new=True) if passphrase else ""
    key = store.create(secret)
    own = known_identity(default_paths())
    signed = None
    if own is not None:
        signed = store.install(sign_node(key, own.node, wall=time.time(), label=label), own.node)
    if as_json:
        emit_json({"owner": key.public.hex(), "encrypted": passphrase, "certificate": _document(signed)})
        return
    emit(fields([("owner", key.public.hex()), ("key", f"in {store.key_file}"), *_rows(signed)]))
    if passphrase:
        say(f"Nobody can restore the passphrase. A node renews its certificate where {PASSPHRASE} is set.")
    else:
        say("The key is not locked: whoever can read your files can sign nodes. `--passphrase` locks one.")
    if own is None:
        say(f"This machine has no node id yet. After its first start: `meshllm owner sign {OWN}`.")
    else:
        _say_when()


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the owner's key, this node's certificate and what others make of it."""
    store, own = OwnerStore(default_paths()), known_identity(default_paths())
    owner, trust, raw = store.owner(), store.read_trust(), store.installed()
    try:
        body = read_owner(raw) if raw else None
    except ProofInvalid as error:
        body = None
        say(f"{store.certificate_file}: {error}")
    verdict = judge("off", trust, raw, own.node, time.time()) if own else None
    if as_json:
        emit_json(
            {
                "owner": owner.owner if owner else None,
                "encrypted": bool(owner and owner.encrypted),
                "node": own.node.hex() if own else None,
                "certificate": _document(body),
                "status": verdict.status if verdict else None,
                "trusted": trust.trusted,
                "revoked": trust.revoked,
            }
        )
        return
    locked = "locked with a passphrase" if owner and owner.encrypted else "not locked"
    rows = [
        ("owner's key", f"{owner.owner}, {locked}" if owner else "not on this machine"),
        ("this node", own.node.hex() if own else "has no id yet: its first start makes one"),
        *(_rows(body) if body else [("certificate", "none")]),
    ]
    if verdict:
        rows.append(("seen here as", verdict.words))
    rows.append(("trust", f"{len(trust.trusted)} owners trusted, {len(trust.revoked)} ids revoked"))
    emit(fields(rows))


@app.command()
def sign(node: Node, label: Label = "", days: Days = 7, as_json: AsJson = False) -> None:
    """Sign a node as yours. Prints the certificate to install there; on the node itself it is installed."""
    paths = default_paths()
    store, own = OwnerStore(paths), known_identity(paths)
    target = _own(own.node if own else None) if node == OWN else NodeId(bytes.fromhex(_id(node)))
    raw = sign_node(_unlock(store), target, wall=time.time(), life=days * DAY, label=_label(label))
    body = read_owner(raw)
    here = own is not None and own.node == target
    if here:
        store.install(raw, target)
    if as_json:
        emit_json({"certificate": to_text(raw), "installed": here, **(_document(body) or {})})
        return
    emit(to_text(raw))
    if here:
        say(f"It is installed here, and valid until {moment(body.expires_at / 1000)}.")
        _say_when()
    else:
        say(f"There: `meshllm owner install CERTIFICATE`. Valid until {moment(body.expires_at / 1000)}.")


@app.command()
def install(
    certificate: Annotated[
        str, typer.Argument(metavar="CERTIFICATE", help="What `meshllm owner sign` printed; - reads stdin.")
    ],
    as_json: AsJson = False,
) -> None:
    """Install an owner's certificate for this node."""
    own = known_identity(default_paths())
    text = sys.stdin.read(4 * limits.CERTIFICATE) if certificate == "-" else certificate
    body = OwnerStore(default_paths()).install(from_text(text), _own(own.node if own else None))
    if body.expires_at / 1000 < time.time():
        say("It is no longer valid: ask its owner for a new one.")
    if as_json:
        emit_json(_document(body))
    else:
        emit(fields(_rows(body)))
        _say_when()


@app.command()
def revoke(
    identity: Annotated[str, typer.Argument(metavar="OWNER|NODE", help="An id: 64 hex digits.")],
    label: Label = "",
    undo: Annotated[bool, typer.Option("--undo", help="No longer revoke it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep an owner's nodes, or one node, away from this machine, whatever the trust policy."""
    store, name = OwnerStore(default_paths()), _id(identity)
    if undo:
        if not store.read_trust().revokes(bytes.fromhex(name)):
            raise ConfigError(f"{name} is not revoked.", hint="See `meshllm owner trust list`.")
        store.forget(name)
    else:
        owner = store.owner()
        if owner is not None and owner.owner == name:
            raise ConfigError(
                "That is the owner of this machine.", hint=f"Move {store.key_file} away if it is lost."
            )
        store.revoke(Entry(id=name, label=_label(label)))
    if as_json:
        emit_json({"id": name, "revoked": not undo})
    else:
        emit(f"{name} is {'no longer revoked' if undo else 'revoked'}.")


@trust_app.command("add")
def trust_add(owner: Owner, label: Label = "", as_json: AsJson = False) -> None:
    """Trust an owner: its nodes count as verified here."""
    entry = Entry(id=_id(owner), label=_label(label))
    OwnerStore(default_paths()).trust_owner(entry)
    if as_json:
        emit_json({"id": entry.id, "label": entry.label, "trusted": True})
    else:
        emit(f"{entry.id} is trusted.")


@trust_app.command("remove")
def trust_remove(owner: Owner, as_json: AsJson = False) -> None:
    """Trust an owner no longer, without revoking it."""
    store, name = OwnerStore(default_paths()), _id(owner)
    if not store.read_trust().trusts(bytes.fromhex(name)):
        raise ConfigError(f"{name} is not trusted.", hint="See `meshllm owner trust list`.")
    store.forget(name)
    if as_json:
        emit_json({"id": name, "trusted": False})
    else:
        emit(f"{name} is no longer trusted.")


@trust_app.command("list")
def trust_list(as_json: AsJson = False) -> None:
    """List the trusted owners, and the owners and nodes that are revoked."""
    trust = OwnerStore(default_paths()).read_trust()
    if as_json:
        emit_json({"trusted": trust.trusted, "revoked": trust.revoked})
        return
    rows = [(entry.id, "trusted", entry.label) for entry in trust.trusted]
    rows += [(entry.id, "revoked", entry.label) for entry in trust.revoked]
    if not rows:
        say("Nobody is trusted or revoked. `meshllm owner trust add OWNER` trusts an owner.")
        return
    emit(table(("id", "state", "label"), rows))


def _unlock(store: OwnerStore) -> SigningKey:
    owner = store.owner()
    return store.unlock(_passphrase(new=False) if owner is not None and owner.encrypted else "")


def _passphrase(*, new: bool) -> str:
    """From the environment, else asked for, else a line of stdin; never from the command line."""
    given = os.environ.get(PASSPHRASE)
    if given is None and sys.stdin.isatty():
        given = getpass.getpass("Passphrase of the owner's key: ", stream=sys.stderr)
        if new and getpass.getpass("Once more: ", stream=sys.stderr) != given:
            raise ConfigError("The two passphrases differ.", hint="Try again.")
    elif given is None:
        given = sys.stdin.readline(PASSPHRASE_BYTES).rstrip("\r\n")
    if not given:
        raise ConfigError("No passphrase was given.", hint=f"Set {PASSPHRASE}, or write it to stdin.")
    return given


def _id(text: str) -> str:
    name = text.strip().lower()
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise ConfigError(
            f"{clean(text[:80])!r} is no id.",
            hint="An id has 64 hex digits: `meshllm id`, `meshllm owner status`.",
        )
    return name


def _label(text: str) -> str:
    if len(text) > limits.NAME:
        raise ConfigError(f"--label has more than {limits.NAME} characters.", param="--label")
    return text


def _own(node: NodeId | None) -> NodeId:
    if node is None:
        raise IdentityError(
            "This machine has no node id yet.", hint="The first `meshllm serve` makes one; then try again."
        )
    return node


def _document(body: OwnerCertificate | None) -> dict[str, object] | None:
    if body is None:
        return None
    return {
        "owner": body.owner.hex(),
        "node": body.node.hex(),
        "label": body.label,
        "issued_at": body.issued_at / 1000,
        "expires_at": body.expires_at / 1000,
    }


def _rows(body: OwnerCertificate | None) -> list[tuple[str, str]]:
    if body is None:
        return []
    return [
        ("signed by", body.owner.hex()),
        ("for node", body.node.hex() + (f" ({body.label})" if body.label else "")),
        ("valid until", moment(body.expires_at / 1000)),
    ]


def _say_when() -> None:
    say("A node that runs shows it to others within seconds.")
