"""A JSON schema, put into the few forms of which llama-cpp-python's converter enforces every word. Pure.

The converter acts on the first keyword that it knows and passes over those beside it, and it takes the last
word of a reference for the name of a rule, which may be another's. So: one meaning for each schema, every
reference to a name of its own, and what then cannot be enforced is refused by name.
"""

import itertools
import json
from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import unquote

from meshllm_core.engine.pattern import plain_pattern
from meshllm_core.errors import InvalidRequest

_TYPES = ("object", "array", "string", "number", "boolean", "null")
ANY: dict[str, Any] = {"anyOf": [{"type": name} for name in _TYPES]}
_VISIT_LIMIT = 20_000
"""Schemas within a schema, those that references repeat included."""
_DEPTH_LIMIT = 128
_WORDS_OF = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"pattern", "minLength", "maxLength", "format"}),
}
_MEANING = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "type"}).union(*_WORDS_OF.values())
_IS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """An equal schema in the converter's forms. Raises InvalidRequest for what cannot be enforced."""
    return _Plain(schema).whole()


class _Plain:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        text = json.dumps(root)
        self._prefix = next(name for n in itertools.count() if (name := f"ref{n or ''}-") not in text)
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._visits = 0

    def whole(self) -> dict[str, Any]:
        if not isinstance(self._root, dict):
            _refuse("schema", "it must be an object")
        if not _MEANING & self._root.keys():
            return {"type": "object"}  # an answer without a form is still a JSON object
        body = self._visit(self._root, "schema", 0)
        definitions = {}
        while self._waiting:
            pointer = self._waiting.pop()
            definitions[self._names[pointer]] = self._visit(self._target(pointer), pointer, 0)
        if not definitions:
            return body
        # The converter follows no definitions beside a reference.
        return {"anyOf": [body], "$defs": definitions}

    def _visit(self, schema: Any, path: str, depth: int) -> dict[str, Any]:
        self._visits += 1
        if self._visits > _VISIT_LIMIT or depth > _DEPTH_LIMIT:
            _refuse(path, "the schema is too large when its references are followed")
        if schema is True:
            return ANY
        if not isinstance(schema, dict):
            _refuse(path, "no value fits false" if schema is False else "it must be an object")
        words = {key: value for key, value in schema.items() if key in _MEANING}
        if "$ref" in words:
            _alone("$ref", words, path)
            return {"$ref": f"#/$defs/{self._name(words['$ref'], path)}"}
        if "allOf" in words:
            return self._visit(self._merged(words, path), path, depth + 1)
        for key in ("anyOf", "oneOf"):
            if key in words:
                return self._either(key, words, path, depth)
        if "enum" in words or "const" in words:
            return {"enum": _values(words, path)}
        if not words:
            return ANY
        branches = [self._typed(kind, words, path, depth) for kind in _types(words, path)]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    # References ------------------------------------------------------------------------------

    def _name(self, pointer: Any, path: str) -> str:
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            _refuse(f"{path}.$ref", f"{str(pointer)[:100]!r} is not within the schema")
        if pointer not in self._names:
            self._target(pointer)
            self._names[pointer] = f"{self._prefix}{len(self._names)}"
            self._waiting.append(pointer)
        return self._names[pointer]

    def _target(self, pointer: str) -> Any:
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isascii() and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                _refuse(f"$ref {pointer[:100]!r}", "there is nothing at this place")
        return found

    # Combinations ----------------------------------------------------------------------------

    def _either(self, key: str, words: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        branches = words[key]
        if not isinstance(branches, list) or not branches:
            _refuse(f"{path}.{key}", "it must be a list that is not empty")
        _alone(key, {name: value for name, value in words.items() if name != "type"}, path)
        if "type" in words:
            branches = [_with_type(branch, words["type"], path) for branch in branches]
        return {
            "anyOf": [self._visit(item, f"{path}.{key}[{n}]", depth + 1) for n, item in enumerate(branches)]
        }

    def _merged(self, words: dict[str, Any], path: str) -> dict[str, Any]:
        """What all parts of `allOf` and the words beside it say together."""
        parts = words["allOf"]
        if not isinstance(parts, list) or not parts:
            _refuse(f"{path}.allOf", "it must be a list that is not empty")
        beside = {key: value for key, value in words.items() if key != "allOf"}
        if len(parts) == 1 and not beside and isinstance(parts[0], dict):
            return parts[0]
        merged: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for part in [*parts, beside]:
            self._merge(merged, part, path, 0)
        return merged

    def _merge(self, merged: dict[str, Any], part: Any, path: str, depth: int) -> None:
        self._visits += 1
        if self._visits > _VISIT_LIMIT or depth > _DEPTH_LIMIT or not isinstance(part, dict):
            _refuse(f"{path}.allOf", "its parts must be objects, and may not contain themselves")
        words = {key: value for key, value in part.items() if key in _MEANING}
        if "$ref" in words:
            _alone("$ref", words, path)
            self._name(words["$ref"], path)
            self._merge(merged, self._target(words["$ref"]), path, depth + 1)
            return
        for inner in words.pop("allOf", []):
            self._merge(merged, inner, path, depth + 1)
        foreign = words.keys() - _WORDS_OF["object"] - {"type"}
        if foreign or words.get("type", "object") != "object":
            _refuse(f"{path}.allOf", "only parts of type object can be put together")
        for name, value in words.get("properties", {}).items():
            if merged["properties"].setdefault(name, value) != value:
                _refuse(f"{path}.allOf", f"its parts say different things of {name[:100]!r}")
        merged["required"] = [*merged["required"], *_names(words.get("required", []), path)]
        if words.get("additionalProperties") is False:
            merged["additionalProperties"] = False

    # Types -----------------------------------------------------------------------------------

    def _typed(self, kind: str, words: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        own = {key: value for key, value in words.items() if key in _WORDS_OF.get(kind, ())}
        match kind:
            case "object":
                return self._object(own, path, depth)
            case "array":
                return self._array(own, path, depth)
            case "string":
                return _string(own, path)
        return {"type": kind}

    def _object(self, words: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        extra = words.get("additionalProperties")
        properties = dict(words.get("properties", {}))
        required = list(dict.fromkeys(_names(words.get("required", []), path)))
        for name in required:
            if name not in properties:
                if extra is False:
                    _refuse(f"{path}.required", f"{name[:100]!r} is not among the properties")
                properties[name] = extra if isinstance(extra, dict) else True
        if not properties and (extra is None or extra is True):
            return {"type": "object"}
        plain: dict[str, Any] = {
            "type": "object",
            "properties": {
                name: self._visit(value, f"{path}.properties.{name}", depth + 1)
                for name, value in properties.items()
            },
            "required": required,
        }
        if extra is not None:
            inner = f"{path}.additionalProperties"
            plain["additionalProperties"] = False if extra is False else self._visit(extra, inner, depth + 1)
        return plain

    def _array(self, words: dict[str, Any], path: str, depth: int) -> dict[str, Any]:
        least, most = words.get("minItems", 0), words.get("maxItems")
        if most is not None and least > most:
            _refuse(f"{path}.minItems", "it is larger than maxItems")
        items = words.get("items", True)
        first = words.get("prefixItems", items if isinstance(items, list) else [])
        if not isinstance(first, list):
            _refuse(f"{path}.prefixItems", "it must be a list")
        if first:
            if least > len(first) or (most is not None and most < len(first)):
                _refuse(f"{path}.prefixItems", "an array of them does not have so many items")
            if isinstance(items, dict) and "items" in words:
                _refuse(f"{path}.items", "it is not supported beside prefixItems")
            fixed = [self._visit(item, f"{path}.prefixItems[{n}]", depth + 1) for n, item in enumerate(first)]
            return {"type": "array", "prefixItems": fixed}
        if items is False or items == []:
            if least:
                _refuse(f"{path}.minItems", "no items are allowed")
            return {"enum": [[]]}
        if items is True and not words:
            return {"type": "array"}
        plain = {"type": "array", "items": self._visit(items, f"{path}.items", depth + 1), "minItems": least}
        return plain if most is None else {**plain, "maxItems": most}


def _string(words: dict[str, Any], path: str) -> dict[str, Any]:
    if "pattern" in words:
        for key in ("minLength", "maxLength"):
            if key in words:
                _refuse(f"{path}.{key}", "it is not supported beside a pattern: write it into that")
        if not isinstance(words["pattern"], str):
            _refuse(f"{path}.pattern", "it must be a string")
        return {"type": "string", "pattern": plain_pattern(words["pattern"])}
    lengths: dict[str, Any] = {key: words[key] for key in ("minLength", "maxLength") if key in words}
    if lengths.get("minLength", 0) > lengths.get("maxLength", lengths.get("minLength", 0)):
        _refuse(f"{path}.minLength", "it is larger than maxLength")
    form = words.get("format")
    return {"type": "string", **(lengths or ({"format": form} if isinstance(form, str) else {}))}


def _types(words: dict[str, Any], path: str) -> list[str]:
    """The types that a schema allows; without `type`, what its other words are about."""
    given = words.get("type")
    if given is None:
        kinds = [kind for kind, own in _WORDS_OF.items() if own & words.keys()]
        if len(kinds) > 1:
            _refuse(path, "it needs a type")
        return kinds
    kinds = given if isinstance(given, list) else [given]
    if not kinds or any(kind not in _IS for kind in map(str, kinds)):
        _refuse(f"{path}.type", f"it must be of {', '.join(_IS)}")
    return list(dict.fromkeys(kinds))


def _values(words: dict[str, Any], path: str) -> list[Any]:
    """The values of `enum` or `const` that are of the type beside them."""
    key = "enum" if "enum" in words else "const"
    _alone(key, {name: value for name, value in words.items() if name != "type"}, path)
    values = words["enum"] if key == "enum" else [words["const"]]
    if not isinstance(values, list):
        _refuse(f"{path}.enum", "it must be a list")
    if "type" in words:
        kinds = _types(words, path)
        values = [value for value in values if any(_IS[kind](value) for kind in kinds)]
    if not values:
        _refuse(f"{path}.{key}", "no value of its type is left")
    return values


def _with_type(branch: Any, kind: Any, path: str) -> Any:
    """A branch of anyOf under a type that stands beside it."""
    if not isinstance(branch, dict) or "$ref" in branch:
        _refuse(f"{path}.type", "it is not supported beside references: write it into what they mean")
    own = branch.get("type", kind)
    wide = kind if isinstance(kind, list) else [kind]
    if any(name not in wide for name in (own if isinstance(own, list) else [own])):
        _refuse(f"{path}.type", "it is not that of what stands beside it")
    return {**branch, "type": own}


def _names(value: Any, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        _refuse(f"{path}.required", "it must be a list of strings")
    return value


def _alone(key: str, words: dict[str, Any], path: str) -> None:
    other = next((word for word in words if word not in {key, "format"}), None)
    if other is not None:
        _refuse(f"{path}.{other}", f"it is not supported beside {key}")


def _refuse(path: str, reason: str) -> NoReturn:
    raise InvalidRequest(
        f"{path[:300]} cannot be enforced: {reason}.",
        hint="Use type, properties, required, items, enum, const, anyOf, $ref and patterns like ^…$.",
    )
