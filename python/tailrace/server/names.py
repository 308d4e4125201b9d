"""Names: which ones are valid, how hosts' names are encoded, and which inputs are the same."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_NAME = 200

# No control characters, which databases and terminals can't handle. pydantic itself refuses lone surrogates.
NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"

# Control characters and lone surrogates.
_UNFIT = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_CONTROL = re.compile(f"[{_UNFIT}]")
_ENCODED = re.compile(f"[{_UNFIT}%]")
# Marks of direction, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_DIRECTION = re.compile(f"[{DIRECTIONS}]")
_KEPT = 183
_HASHED = 16


def encoded_host(name: str) -> str:
    """Encodes a host's name that isn't valid; a valid name stays.

    Names come from rows, and no row may stop a query. An empty name is "%". Control characters and "%" become
    percent-encoded UTF-8. A name that is too long is cut, and ends with a hash of the whole.
    """
    if name and len(name) <= MAX_NAME and not _CONTROL.search(name):
        return name
    if not name:
        return "%"
    text = _ENCODED.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(errors="surrogatepass")), name
    )
    if len(text) <= MAX_NAME:
        return text
    return f"{text[:_KEPT]}~{sha256(name.encode(errors='surrogatepass')).hexdigest()[:_HASHED]}"


def is_text(names: Iterable[str]) -> bool:
    """True if names are valid Unicode, which JSON doesn't ensure."""
    joined = "".join(names)
    if joined.isascii():
        return True
    try:
        joined.encode()
    except UnicodeEncodeError:
        return False
    return True


def all_fit(names: Iterable[str]) -> bool:
    """True if no name needs encoding; much faster than a check of each name."""
    given = list(names)
    longest = max(map(len, given), default=0)
    return all(given) and longest <= MAX_NAME and not _CONTROL.search("".join(given))


def shown_some(names: Sequence[str], most: int = 5, *, quoted: bool = True, of: int | None = None) -> str:
    """The first of some names, and how many more there are.

    Args:
        names: all names, for instance of hosts.
        most: the number of names to show.
        quoted: writes each as a Python literal, so that no name is mistaken for the text around it.
        of: the number of all names, if `names` are only the first of them.
    """
    count = len(names) if of is None else of
    shown = ", ".join(repr(name) if quoted else name for name in names[:most])
    return shown if count <= most else f"{shown} and {count - min(most, len(names)):,} others"


def plain(name: str) -> str:
    """A name whose marks of direction are written out, so that they don't reorder the text around it.

    U+202E would turn the rest of a line around; it is shown as its escape.
    """
    return _DIRECTION.sub(lambda found: f"\\u{ord(found[0]):04x}", name)


def shown_client(client: str, query: str | None, run: str = "") -> str:
    """A query in an error: its name, if it has one, the id in its checkpoint, and its start."""
    start = f", run {run!r}" if run else ""
    return (
        f"the query {query!r} (id {client!r}{start})" if query else f"the query of the id {client!r}{start}"
    )


class Inputs:
    """The inputs that a reporter reads or writes, by name; a whole topic contains each of its partitions.

    Args:
        names: the names that were reported.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: frozenset[str] = frozenset(names)

    def lacking(self, others: Iterable[str]) -> list[str]:
        """The names of `others` that are not here, neither themselves nor by their whole topic."""
        return sorted({n for n in others if n not in self.names and _topic_of(n) not in self.names})


class InputIndex:
    """The readers of each input of one operator, found by the input's name."""

    def __init__(self) -> None:
        self._reads: dict[str, tuple[str, ...]] = {}
        self._readers: dict[str, set[str]] = {}
        # "kafka:SERVERS/TOPIC/PARTITION" is a part of "kafka:SERVERS/TOPIC": by topic, partitions by client.
        self._parts: dict[str, dict[str, set[str]]] = {}

    def update(self, reads: Mapping[str, tuple[str, ...]]) -> None:
        """Applies the current inputs of clients; an object that is the same as before costs nothing.

        Args:
            reads: the inputs of all clients, by client.
        """
        for client in [name for name, names in self._reads.items() if reads.get(name) is not names]:
            self._take_out(client)
        for client in reads.keys() - self._reads.keys():
            self._reads[client] = reads[client]
            for name in reads[client]:
                self._readers.setdefault(name, set()).add(client)
                topic = _topic_of(name)
                if topic is not None:
                    self._parts.setdefault(topic, {}).setdefault(client, set()).add(name)

    def sharing(self, inputs: Inputs) -> dict[str, str]:
        """Clients that share some inputs, each with the first common input by name."""
        found: dict[str, str] = {}

        def note(client: str, name: str) -> None:
            found[client] = min(found.get(client, name), name)

        for name in inputs.names:
            for client in self._readers.get(name, ()):
                note(client, name)
            for client in self._readers.get(_topic_of(name) or "", ()):
                note(client, name)
            for client, parts in self._parts.get(name, {}).items():
                note(client, min(parts))
        return found

    def _take_out(self, client: str) -> None:
        for name in self._reads.pop(client):
            readers = self._readers.get(name, set())
            readers.discard(client)
            if not readers:
                self._readers.pop(name, None)
            topic = _topic_of(name)
            parts = {} if topic is None else self._parts.get(topic, {})
            parts.pop(client, None)
            if topic is not None and not parts:
                self._parts.pop(topic, None)


def _topic_of(name: str) -> str | None:
    if not name.startswith("kafka:"):
        return None
    topic, _, partition = name.rpartition("/")
    return topic if partition.isdecimal() and "/" in topic else None
