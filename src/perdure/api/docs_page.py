"""The description of the API as a page: plain HTML, no script, nothing from elsewhere."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h2 { margin-top: 2.5rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
details { border: 1px solid #8886; border-radius: 6px; margin: 0.4rem 0; padding: 0.4rem 0.8rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; margin: 0.6rem 0; }
td, th { border-top: 1px solid #8886; padding: 0.25rem 0.8rem 0.25rem 0; text-align: left; vertical-align: top; }
"""
_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_CODE = re.compile(r"`([^`]*)`")


def render_page(document: Mapping[str, Any]) -> bytes:
    """The page for an OpenAPI document."""
    info = document["info"]
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    sections = [
        _section(tag["name"], [one for one in operations if tag["name"] in one[2]["tags"]]) for tag in document["tags"]
    ]
    shapes = [_shape(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    title = escape(f"{info['title']} {info['version']}")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{_words(info['summary'])}</p><p>{_words(info['description'])} "
        f'The same for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}<h2>Shapes</h2>{''.join(shapes)}</body></html>"
    )
    return page.encode()


def _section(subject: str, operations: Iterable[tuple[str, str, Mapping[str, Any]]]) -> str:
    return f"<h2>{escape(subject)}</h2>" + "".join(_operation(*operation) for operation in operations)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<p>{_words(operation['description'])}</p>"] if "description" in operation else []
    parameters = [
        (f"<code>{escape(one['name'])}</code>", one["in"], _type(one["schema"]), _words(one["description"]))
        for one in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(_table(("parameter", "in", "type", ""), parameters))
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        parts.append(f"<p>Body: {_type(schema)}</p>")
    answers = [
        (status, _content(response), _words(response["description"]))
        for status, response in sorted(operation["responses"].items())
    ]
    parts.append(_table(("status", "body", ""), answers))
    head = f"<b>{escape(method.upper())}</b> <code>{escape(path)}</code> {_words(operation['summary'])}"
    return f"<details><summary>{head}</summary>{''.join(parts)}</details>"


def _content(response: Mapping[str, Any]) -> str:
    return ", ".join(_type(content["schema"]) for content in response.get("content", {}).values())


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(member)}</code>",
            _type(details) + (" <small>required</small>" if member in required else ""),
            _words(details.get("description", "")),
        )
        for member, details in schema.get("properties", {}).items()
    ]
    about = f"<p>{_words(schema.get('description', ''))}</p>"
    head = f"<summary><code>{escape(name)}</code></summary>"
    return f'<details id="{escape(name)}">{head}{about}{_table(("member", "type", ""), rows)}</details>'


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, with links to the shapes."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"] if one is not None)
    kinds = schema.get("type", "any")
    words = " or ".join(kinds) if isinstance(kinds, list) else kinds
    if words == "array" and "items" in schema:
        return f"array of {_type(schema['items'])}"
    limits = [f"{word} {schema[key]}" for key, word in _BOUNDS if key in schema]
    return escape(" ".join([words, *([f"({', '.join(limits)})"] if limits else [])]))


_BOUNDS = (("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _words(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
