"""A person's choice of what to see. It is in the page's address: it survives a refresh, and can be shared."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from tailrace.server.hostpages import Asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.server.answers import Standing

HOSTS = 15
"""Hosts of one page."""

TABS = 12
"""Applications of one page."""


@dataclass(frozen=True)
class Choice:
    """The parameters of the page.

    Attributes:
        app: the application; empty: the first one.
        search: a part of the hosts' names.
        state: the state of the hosts; empty: any.
        page: of the hosts, from 1 on.
        find: a part of the applications' names.
        apps: the page of the applications, from 1 on.
    """

    app: str = ""
    search: str = ""
    state: Standing | Literal[""] = ""
    page: int = 1
    find: str = ""
    apps: int = 1

    def link(self, **changes: str | int) -> str:
        """The address of the page with something else chosen, relative to the page."""
        changed = asdict(replace(self, **changes))  # type: ignore[arg-type]  # each is of its field's type
        default = asdict(Choice())
        return "?" + urlencode({name: value for name, value in changed.items() if value != default[name]})

    def asked(self) -> Asked:
        """The hosts that it asks for."""
        return Asked(None, self.search, self.state or None, HOSTS, (self.page - 1) * HOSTS)


@dataclass(frozen=True)
class Tabs:
    """A page of the applications.

    Attributes:
        names: of this page; the chosen application is among them wherever it stands.
        found: how many match.
        total: how many there are.
        pages: how many pages those that match have.
        page: which one of them this is.
    """

    names: Sequence[str]
    found: int
    total: int
    pages: int
    page: int


def tabs_of(names: Sequence[str], choice: Choice) -> Tabs:
    """The applications that a choice shows.

    Args:
        names: of all.
        choice: with the part of the names, the page, and the application that is shown.
    """
    wanted = choice.find.casefold()
    found = [name for name in names if wanted in name.casefold()]
    pages = max(1, -(-len(found) // TABS))
    page = min(choice.apps, pages)
    shown = found[(page - 1) * TABS : page * TABS]
    chosen = [choice.app] if choice.app in names and choice.app not in shown else []
    return Tabs([*chosen, *shown], len(found), len(names), pages, page)
