"""Retries a failed transaction of several applications: each application in its own transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tailrace.server.database import WAIT_SECONDS, DatabaseError, NotBegunError
from tailrace.server.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.protocol import Report

    Reports = Sequence[tuple[str, Report]]
    Answers = list[ReportAnswer | Exception]

_log = logging.getLogger(__name__)


def one_by_one(
    names: Sequence[str],
    reports: Reports,
    take: Callable[[Sequence[str], Reports], Answers],
    tick: Callable[[], int],
) -> Answers:
    """Takes in the reports of each application, and returns an answer or an error for each report.

    One application may wait WAIT_SECONDS for a lock of another server, and all clients wait meanwhile. So
    when that time is over, or when a transaction can't begin, the first error counts for all that remain.
    """
    found: dict[int, ReportAnswer | Exception] = {}
    hopeless: DatabaseError | None = None
    end = tick() + WAIT_SECONDS * SECOND
    for name in names:
        places = [i for i, (app, _) in enumerate(reports) if app == name]
        if hopeless is not None:
            found.update(dict.fromkeys(places, hopeless))
            continue
        try:
            found.update(zip(places, take([name], [reports[i] for i in places]), strict=True))
        except DatabaseError as error:
            found.update(dict.fromkeys(places, error))
            if isinstance(error, NotBegunError) or tick() > end:
                hopeless = error
        except Exception as error:  # noqa: BLE001  of this application alone: others are committed already
            _log.warning("Reports of %r have failed", name, exc_info=True)
            found.update(dict.fromkeys(places, error))
    return [found[i] for i in range(len(reports))]
