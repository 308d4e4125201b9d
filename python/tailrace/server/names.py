"""Names on the wire: what they may be, hosts' as they are kept, and which inputs are the same."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME = 200

# No control characters, which databases and terminals stumble over. Lone surrogates pydantic refuses itself.
NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"

# Control characters, and halves of characters, which are no text.
_UNFIT = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_CONTROL = re.compile(f"[{_UNFIT}]")
_ENCODED = re.compile(f"[{_UNFIT}%]")
_KEPT = 183
_HASHED = 16


def encoded_host(name: str) -> str:
    """A host's name as it is kept: one that is fit already stays, another one is encoded.

    A name comes out of somebody's row, and no row may stop a query: an empty one is "%", control characters
    and "%" become their UTF-8 in percents, and one that is too long is cut, with a hash of the whole.
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


def all_fit(names: Iterable[str]) -> bool:
    """Whether no host's name of some needs to be encoded; much faster than to ask of each."""
    given = list(names)
    longest = max(map(len, given), default=0)
    return all(given) and longest <= MAX_NAME and not _CONTROL.search("".join(given))


class Inputs:
    """What a reporter says that it reads or writes: names, of which a whole topic has each of its partitions.

    Args:
        names: as they were reported.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        # "kafka:SERVERS/TOPIC/PARTITION" is a part of "kafka:SERVERS/TOPIC".
        self._topics = {topic: name for name in self.names if (topic := _topic_of(name))}

    def shared(self, other: Inputs) -> str | None:
        """One name that both read, the first by name; None if there is none."""
        found = self.names & other.names
        wholes = [self._topics[name] for name in other.names & self._topics.keys()]
        wholes += [other._topics[name] for name in self.names & other._topics.keys()]
        return min((*found, *wholes), default=None)


def _topic_of(name: str) -> str | None:
    if not name.startswith("kafka:"):
        return None
    topic, _, partition = name.rpartition("/")
    return topic if partition.isdecimal() and "/" in topic else None
