"""`/healthz`, which says that the process is well, and `/readyz`, which says that it can take reports."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from tailrace.server.api import reader_of, worker_of
from tailrace.server.database import DatabaseError
from tailrace.server.reading import BusyError

if TYPE_CHECKING:
    from tailrace.server.ledger import Ledger
    from tailrace.server.reading import Reader
    from tailrace.server.worker import Worker

WAIT_SECONDS = 2.0
"""The time limit for answers of the worker and the database."""

# Anybody may ask here, so the worker isn't asked more often.
_FRESH_SECONDS = 1.0

router: APIRouter = APIRouter(include_in_schema=False)


class Readiness:
    """Asks the worker's thread and the reader's for the database, once for all who ask at the same time.

    Args:
        worker: takes reports.
        reader: answers who reads.
    """

    def __init__(self, worker: Worker, reader: Reader) -> None:
        self._worker = worker
        self._reader = reader
        self._asked: asyncio.Future[str] | None = None
        self._at = 0.0

    async def fault(self) -> str:
        """Why the server can't take reports; empty if it can. It says nothing of the database."""
        if not self._worker.is_alive():
            return "the thread that takes reports has ended: start the server again"
        now = time.monotonic()
        if self._asked is None or (self._asked.done() and now - self._at > _FRESH_SECONDS):
            self._asked = asyncio.ensure_future(self._ask())
            self._at = now
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await asyncio.shield(self._asked)
        except TimeoutError:
            return f"the database, or the thread that takes reports, doesn't answer within {WAIT_SECONDS:g} s"

    async def _ask(self) -> str:
        try:
            await self._worker.call(_write)
            await self._reader.call(_look)
        except DatabaseError:
            return "the database fails: see the server's log"
        except BusyError as error:
            return str(error)
        return ""


def _write(ledger: Ledger) -> None:
    ledger.records.write()


def _look(ledger: Ledger) -> None:
    ledger.records.look()


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Answers 200 as long as the database can be read and the last transaction has succeeded.

    It waits for nobody, and says nothing of the database: the log does, and anybody may ask here.
    """
    if worker_of(request).tally.is_well():
        return Response("ok\n", media_type="text/plain")
    return Response("the database fails: see the server's log\n", 503, media_type="text/plain")


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Answers 200 if the worker's thread can write to the database now, and the reader's can read it."""
    state = request.app.state
    if not hasattr(state, "readiness"):
        state.readiness = Readiness(worker_of(request), reader_of(request))
    fault = await state.readiness.fault()
    return Response(f"{fault or 'ok'}\n", 503 if fault else 200, media_type="text/plain")
