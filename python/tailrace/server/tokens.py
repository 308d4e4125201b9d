"""Tokens and rights: one token for everything, or one each for reading, reporting and deciding."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tailrace.errors import TailraceServerError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_VARIABLE = "TAILRACE_WATERMARK_TOKEN"  # noqa: S105  the name of a variable
_LEAST_TOKEN = 16

Right = Literal["read", "report", "decide"]


@dataclass(frozen=True)
class Tokens:
    """Each is a right's token; who may report or decide may read as well.

    Attributes:
        read: for pages, metrics and the API's GET.
        report: for reports.
        decide: for overrides.
    """

    read: str
    report: str
    decide: str

    @staticmethod
    def one(token: str) -> Tokens:
        """One token that has all rights."""
        return Tokens(token, token, token)

    def rights(self, given: bytes) -> set[Right]:
        """The rights of a token; none for an unknown token."""
        found: set[Right] = set()
        # Every token is compared, in a time that doesn't depend on where they differ.
        for right, token in (("read", self.read), ("report", self.report), ("decide", self.decide)):
            if hmac.compare_digest(given, token.encode()):
                found.update((right, "read"))  # type: ignore[arg-type]  # they are Rights
        return found


def right_for(method: str, path: str) -> Right:
    """The right that a request needs."""
    if method in {"GET", "HEAD", "OPTIONS"}:
        return "read"
    return "report" if path.endswith("/reports") else "decide"


def read_tokens(
    token_file: Path | None, read: Path | None, report: Path | None, decide: Path | None
) -> Tokens | None:
    """The tokens out of files, or else the environment; None if there is none at all.

    Raises:
        TailraceServerError: a file can't be read, a token is no good, or one right has a token and another
            one has none.
    """
    every = read_token(token_file)
    found = {
        name: read_token(file, f"TAILRACE_WATERMARK_{name.upper()}_TOKEN") or every
        for name, file in (("read", read), ("report", report), ("decide", decide))
    }
    missing = [name for name, token in found.items() if token is None]
    if len(missing) == len(found):
        return None
    if missing:
        raise TailraceServerError(
            f"There is no token for who may {' or '.join(missing)}, and one for others: name a token for "
            "each, or --token-file for the rest.",
            condition="TAILRACE_SERVER_TOKEN_MISSING",
            parameters={"right": ", ".join(missing)},
        )
    return Tokens(**{name: token for name, token in found.items() if token is not None})


def read_token(token_file: Path | None, variable: str = TOKEN_VARIABLE) -> str | None:
    """A bearer token out of a file, or else the environment; None if there is none.

    Raises:
        TailraceServerError: the file can't be read, or the token is no good.
    """
    source = str(token_file or f"${variable}")
    try:
        token = os.environ.get(variable) if token_file is None else token_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TailraceServerError(
            f"The token can't be read from {source}: {error}. Name a text file with the token alone, which "
            "the server's user may read.",
            condition="TAILRACE_SERVER_TOKEN_INVALID",
            parameters={"source": source},
        ) from error
    if token is None or (len(token) >= _LEAST_TOKEN and token.isascii() and token.isprintable()):
        return token
    raise TailraceServerError(
        f"The token in {source} isn't one line of at least {_LEAST_TOKEN} printable ASCII characters. Make "
        "one, for instance with `openssl rand -hex 32`.",
        condition="TAILRACE_SERVER_TOKEN_INVALID",
        parameters={"source": source},
    )
