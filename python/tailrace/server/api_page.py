"""The API for people at `/docs`, out of its OpenAPI description; needs no script and no other server."""

from __future__ import annotations

import json
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

router = APIRouter(include_in_schema=False)

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title: API</title>
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/page.css">
</head>
<body>
<header><h1>$title: API</h1>
<nav><a href="/">Watermarks</a><a href="/openapi.json">openapi.json</a></nav></header>
<main>
<p>All times are microseconds since 1970-01-01 UTC. A refusal is <code>{"detail": "reason"}</code>.</p>
$routes
<section><h2>Types</h2>$types</section>
</main>
</body>
</html>
""")


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The routes and the types."""
    description = request.app.openapi()
    routes = "".join(
        _route(method, path, route)
        for path, methods in description["paths"].items()
        for method, route in methods.items()
    )
    types = "".join(
        _type(name, schema) for name, schema in sorted(description["components"]["schemas"].items())
    )
    return HTMLResponse(
        _PAGE.substitute(title=escape(description["info"]["title"]), routes=routes, types=types)
    )


def _route(method: str, path: str, route: Mapping[str, Any]) -> str:
    rows = [
        _row(p["name"], f"{p['in']}, {_kind(p['schema'])}", p.get("description", ""))
        for p in route.get("parameters", ())
    ]
    if "requestBody" in route:
        rows.append(_row("body", _kind(route["requestBody"]["content"]["application/json"]["schema"]), ""))
    for status, answer in route["responses"].items():
        content = answer.get("content", {}).get("application/json", {}).get("schema", {})
        rows.append(_row(status, _kind(content), answer["description"]))
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code> {escape(route['summary'])}</h2>"
        f"<p>{escape(route.get('description', ''))}</p><table>{''.join(rows)}</table></section>"
    )


def _type(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        _row(field, _kind(of) + ("" if field in needed else ", optional"), of.get("description", ""))
        for field, of in schema.get("properties", {}).items()
    ]
    about = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{about}</p><table>{"".join(rows)}</table>'


def _row(name: str, kind: str, about: str) -> str:
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td class='about'>{escape(about)}</td></tr>"
    )


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema in a few words of HTML; types of ours are links."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(escape(json.dumps(value)) for value in schema.get("enum", [schema.get("const")]))
    inner = schema.get("items") or next(iter(schema.get("patternProperties", {}).values()), None)
    inner = inner or schema.get("additionalProperties")
    of = f" of {_kind(inner)}" if isinstance(inner, dict) else ""
    return escape(schema.get("type", "anything")) + of + "".join(_limits(schema))


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    for key, text in (
        ("minimum", "from"),
        ("maximum", "to"),
        ("maxLength", "of at most"),
        ("maxItems", "at most"),
        ("maxProperties", "at most"),
    ):
        if key in schema:
            yield f" {text} {schema[key]:,}"
