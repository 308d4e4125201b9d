"""Parses the bodies of reports; large ones in a thread, so that the server answers others meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError

from tailrace.server.protocol import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Response

# A smaller body isn't worth a thread: one of 1,000 hosts takes 0.5 ms.
_LARGE = 64 * 2**10


class MalformedError(HTTPException):
    """The body is JSON and no report.

    Args:
        error: pydantic's error.
    """

    def __init__(self, error: ValidationError) -> None:
        super().__init__(422)
        found = error.errors(include_url=False, include_context=False, include_input=False)
        self.faults: list[dict[str, Any]] = [{**e, "loc": ("body", *e["loc"])} for e in found]


class ReportRoute(APIRoute):
    """A route of which the body is a report."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def handle_report(request: Request) -> Response:
            return await handle(_ReportRequest(request.scope, request.receive))

        return handle_report


class _ReportRequest(Request):
    async def json(self) -> Any:  # noqa: ANN401  as Starlette has it
        """The report; FastAPI takes it for what it would make of the JSON."""
        body = await self.body()
        if len(body) < _LARGE:
            return _parse(body)
        # One at a time: parsing takes CPU, and its result is many times as large as the body.
        return await asyncio.get_running_loop().run_in_executor(self.app.state.parser, _parse, body)


def _parse(body: bytes) -> Report:
    try:
        return Report.model_validate(json.loads(body))
    except ValidationError as error:
        raise MalformedError(error) from None
