"""Where the command takes the store's URL from, so that no password stands where all users see it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tailrace.errors import TailraceServerError
from tailrace.server.wording import secrets_of, shown_url

if TYPE_CHECKING:
    from pathlib import Path

STORE_VARIABLE = "TAILRACE_WATERMARK_STORE"
_DEFAULT = "sqlite:///watermarks.db"


def read_store(given: str | None, file: Path | None) -> str:
    """The URL from the command line, a file, the environment, or the default one.

    Raises:
        TailraceServerError: it has a password and stands on the command line, or the file can't be read.
    """
    if given is not None:
        if secrets_of(given):
            raise TailraceServerError(
                f"--store {shown_url(given)} has its password on the command line, where all users of the "
                f"machine see it. Put the URL into a file for --store-file, or into {STORE_VARIABLE}, or the "
                "password into PGPASSWORD or ~/.pgpass.",
                condition="TAILRACE_SERVER_STORE_PASSWORD",
                parameters={"store": shown_url(given)},
            )
        return given
    if file is None:
        return os.environ.get(STORE_VARIABLE, _DEFAULT)
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TailraceServerError(
            f"The store's URL can't be read from {file}: {error}.",
            condition="TAILRACE_SERVER_STORE_INVALID",
            parameters={"store": str(file)},
        ) from error
    return lines[0].strip()
