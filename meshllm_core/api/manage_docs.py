"""OpenAPI of the management API, and a page of it that needs no other server: a home may be offline."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from meshllm_core.api.openai.errors import ErrorEnvelope
from meshllm_core.api.schema import Health, Status
from meshllm_core.state.events import LoggedEvent
from meshllm_core.state.snapshot import NodeSnapshot

_REF = "#/components/schemas/{name}"
_TYPES: tuple[type[msgspec.Struct], ...] = (Health, Status, NodeSnapshot, LoggedEvent, ErrorEnvelope)
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section { border: 1px solid #8886; border-radius: .5rem; padding: 0 1rem 1rem; margin: 1rem 0; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; background: #8881; padding: .75rem; border-radius: .3rem; }
h2 { font-size: 1.1rem; } .verb { border: 1px solid; border-radius: .3rem; padding: .1rem .4rem; }
"""


def answer(type_: type[msgspec.Struct]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers with a struct."""
    schema = {"$ref": _REF.format(name=type_.__name__)}
    return {200: {"description": _first_line(type_), "content": {"application/json": {"schema": schema}}}}


def action_request(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The extra OpenAPI of a route that takes a struct as its body and needs the token."""
    schema = {"$ref": _REF.format(name=arguments.__name__)}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"content": content}, "security": [{"bearer": []}]}


def question_request(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The extra OpenAPI of a route that takes a struct's fields as its query and needs the token."""
    schema = msgspec.json.schema_components((arguments,))[1][arguments.__name__]
    required = schema.get("required", ())
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": field,
            "description": field.get("description", ""),
        }
        for name, field in schema["properties"].items()
    ]
    return {"parameters": parameters, "security": [{"bearer": []}]}


def build_openapi(app: FastAPI, arguments: tuple[type[msgspec.Struct], ...]) -> dict[str, Any]:
    """The OpenAPI document; the schemas come from the structs that are sent."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        routes=app.routes,
        description="State of this node, its events, and what may be asked of it.",
    )
    _, components = msgspec.json.schema_components((*_TYPES, *arguments), ref_template=_REF)
    document["components"] = {
        "schemas": components,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    error = {"application/json": {"schema": {"$ref": _REF.format(name="ErrorEnvelope")}}}
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "An error in OpenAI's shape.",
                "content": error,
            }
    return document


def render_docs(document: Mapping[str, Any]) -> str:
    """One page of HTML without scripts: every call, its schema, and how to make it with curl."""
    calls = "".join(
        _call(verb.upper(), path, operation)
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    )
    schemas = "".join(
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_pre(schema)}</details>"
        for name, schema in document["components"]["schemas"].items()
    )
    title = escape(document["info"]["title"])
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style>"
        f"<body><h1>{title}</h1><p>{escape(document['info']['description'])} "
        "Actions and questions need the bearer token; <code>meshllm doctor</code> names its file. "
        "The same as a document: <a href='/openapi.json'>openapi.json</a>.</p>"
        f"{calls}<h2>Schemas</h2>{schemas}</body></html>"
    )


def _call(verb: str, path: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    curl = ["curl -s"]
    if operation.get("security"):
        curl.append('-H "Authorization: Bearer $(cat TOKEN_FILE)"')
    if verb != "GET":
        curl.append("-d '{…}'")
    curl.append(f"localhost:3131{path}")
    parameters = "".join(
        f"<li><code>{escape(item['name'])}</code> ({item['in']}): {escape(item.get('description', ''))}"
        for item in operation.get("parameters", [])
    )
    text = operation.get("description") or operation.get("summary", "")
    name = body["$ref"].rpartition("/")[2] if body else ""
    takes = f"<p>Body: <a href='#{escape(name)}'><code>{escape(name)}</code></a></p>" if name else ""
    return (
        f"<section><h2><span class='verb'>{escape(verb)}</span> <code>{escape(path)}</code></h2>"
        f"<p>{escape(text)}</p><ul>{parameters}</ul>{takes}<pre>{escape(' '.join(curl))}</pre></section>"
    )


def _pre(schema: object) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"


def _first_line(type_: type) -> str:
    return (type_.__doc__ or type_.__name__).splitlines()[0]
