"""Makes a recording that names nobody: names, addresses and ids are replaced, each always by the same. Pure.

What stays: models, hardware, versions, times, states. Folders are left out of paths.
"""

import hashlib
import ipaddress
import re
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from meshllm_core.state.recording import Frame

S = TypeVar("S", bound=msgspec.Struct)

WORDS_LIMIT: Final = 20_000
"""Names that are remembered to be found in sentences; later ones are replaced only in their own fields."""
ID_SHOWN: Final = 8
"""Hex digits of an id by which it is recognised when it is shortened."""

_NAMES: Final = {
    "NodeStarted.name": "machine",
    "NodeSnapshot.name": "machine",
    "PeerRow.name": "machine",
    "PeerRow.seen_through": "machine",
    "StageRow.node_name": "machine",
    "HostedStage.coordinator": "machine",
    "RequestStarted.served_by": "machine",
    "RequestStarted.asked_by": "machine",
    "RequestView.served_by": "machine",
    "RequestView.asked_by": "machine",
    "InviteRow.created_by": "machine",
    "InviteRow.used_by": "machine",
    "MeshEntered.name": "mesh",
    "MeshView.name": "mesh",
}
"""Struct and field of what people named, and the word that stands for it."""
_IDS: Final = frozenset(
    {"RequestStarted.request", "RequestFinished.request", "RequestView.id", "PeerRow.owner"}
)
_PATHS: Final = frozenset(
    {"ModelLoadProgressed.path", "ModelView.path", "ModelRequested.ref", "ModelView.ref"}
)
_HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{8,64}(?![0-9A-Za-z])")
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9A-Za-z])")
_IPV4 = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z:])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:%[0-9a-z]+)?")
_HOME = re.compile(r"(/(?:home|Users)/|[A-Za-z]:\\Users\\)[^/\\\s\"']+")
_FOLDER = re.compile(r"^(?:/|~|[A-Za-z]:\\).*[/\\]")
_FOLDERS = re.compile(r"(?<![\w:/.~-])~?/(?!v1/|api/)(?:[^\s/\"':,]+/)+")
"""Folders of an absolute path in a sentence; neither an address nor a route of the API."""
_HOST = re.compile(r"://([^/:\[\]\s]+)")


class Redactor:
    """Replaces consistently within one recording; `salt` must be secret and new for each."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._counts: dict[str, int] = {}
        self._words: dict[str, str] = {"localhost": "localhost"}
        self._pattern: re.Pattern[str] | None = None

    def frame(self, frame: Frame) -> Frame:
        """The same frame without names, addresses and ids."""
        self._learn(frame)
        return self._struct(frame)

    def _learn(self, value: object) -> None:
        """Remember what is named in fields, so that sentences that tell of it are found."""
        if isinstance(value, msgspec.Struct):
            kind = type(value).__name__
            for name in value.__struct_fields__:
                self._learn_field(f"{kind}.{name}", getattr(value, name))
        elif isinstance(value, tuple):
            for each in value:
                self._learn(each)

    def _learn_field(self, place: str, value: object) -> None:
        if place in _NAMES:
            for text in value if isinstance(value, tuple) else (value,):
                self._word(_NAMES[place], str(text))
        elif place.endswith(("api_url", "console_url")) and isinstance(value, str):
            for host in _HOST.findall(value):
                if not _IPV4.fullmatch(host):
                    self._word("host", host)
        else:
            self._learn(value)

    def _word(self, kind: str, text: str) -> str:
        if not text:
            return text
        known = self._words.get(text)
        if known is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            known = f"{kind}-{self._counts[kind]}"
            if len(self._words) < WORDS_LIMIT:
                self._words[text] = known
                self._pattern = None
        return known

    def _struct(self, value: S) -> S:
        kind = type(value)
        changes = {
            name: self._value(f"{kind.__name__}.{name}", getattr(value, name)) for name in _free_fields(kind)
        }
        return msgspec.structs.replace(value, **changes)

    def _value(self, place: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(place, value)
        if isinstance(value, tuple):
            return tuple(self._value(place, each) for each in value)
        return self._struct(value) if isinstance(value, msgspec.Struct) else value

    def _text(self, place: str, text: str) -> str:
        if place in _NAMES:
            return self._word(_NAMES[place], text)
        if place in _IDS:
            return self._fake("id", text) if text and not _UUID.search(text) else self.sentence(text)
        if place in _PATHS:
            text = _FOLDER.sub("", text)
        return self.sentence(text)

    def sentence(self, text: str) -> str:
        """A text in which names, addresses and ids are found wherever they stand."""
        text = _HOME.sub(r"\1user", text)
        text = _FOLDERS.sub("…/", text)
        text = _UUID.sub(lambda found: self._fake("uuid", found.group()), text)
        text = _HEX.sub(self._id, text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        return self._names().sub(lambda found: self._words[found.group()], text)

    def _names(self) -> re.Pattern[str]:
        if self._pattern is None:
            longest = sorted(self._words, key=len, reverse=True)
            self._pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")
        return self._pattern

    def _digest(self, kind: str, text: str) -> str:
        given = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(given, key=self._salt[:64], digest_size=32).hexdigest()

    def _fake(self, kind: str, text: str) -> str:
        digest = self._digest(kind, text)
        if kind == "uuid":
            return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
        return f"{kind}-{digest[:10]}"

    def _id(self, found: re.Match[str]) -> str:
        """Another id, whose beginning is the same wherever the beginning of the real one is the same."""
        text = found.group()
        if len(text) < 16 and text.isdecimal():
            return text
        return self._digest("hex", text[:ID_SHOWN])[: len(text)]

    def _address(self, found: re.Match[str]) -> str:
        text = found.group()
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        number = int(self._digest("address", str(address))[:8], 16)
        if address.version == 6:
            return f"2001:db8::{number >> 16:x}:{number & 0xFFFF:x}"
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


@lru_cache(maxsize=256)
def _free_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Fields that hold texts or structs; those with a closed set of values stay as they are."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return tuple(each.name for each in described.fields if _free(each.type))


def _free(described: inspect.Type) -> bool:
    match described:
        case inspect.LiteralType():
            return False
        case inspect.UnionType(types=types):
            return any(map(_free, types))
        case inspect.VarTupleType(item_type=item):
            return _free(item)
        case inspect.StrType() | inspect.StructType():
            return True
    return False
