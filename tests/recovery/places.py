"""Where the checkpoints of the processes are that a campaign kills: below its folder, or in a store."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cluster import Cluster

    from stores import Store


class Place(Protocol):
    """Where a campaign's processes put what they are tested for. The root is the campaign's own folder.

    Attributes:
        cluster: where its tasks run, if they don't run in the process. Then executors are lost instead of it.
    """

    cluster: Cluster | None

    def environment(self, root: Path) -> Mapping[str, str]:
        """What `worker_session` reads of it."""
        ...

    def names(self, root: Path, folder: str) -> list[str]:
        """What is directly in a folder now; none if it isn't there."""
        ...

    def see(self, root: Path, folder: str) -> Path:
        """A local folder with all that is in a folder now."""
        ...


class LocalPlace:
    """The campaign's own folder."""

    cluster: Cluster | None = None

    def environment(self, _root: Path) -> Mapping[str, str]:
        return {}

    def names(self, root: Path, folder: str) -> list[str]:
        return [path.name for path in (root / folder).glob("*")]

    def see(self, root: Path, folder: str) -> Path:
        return root / folder


class StorePlace:
    """A folder of a store, with the name of the campaign's own."""

    def __init__(self, store: Store, cluster: Cluster | None = None) -> None:
        self._store = store
        self.cluster = cluster
        self._numbers = itertools.count()

    def environment(self, root: Path) -> Mapping[str, str]:
        settings = {**self._store.settings, **(self.cluster.settings if self.cluster else {})}
        place = {"url": self._store.url(root.name), "settings": settings}
        return {"TAILRACE_PLACE": json.dumps(place)}

    def names(self, root: Path, folder: str) -> list[str]:
        return self._store.names(f"{root.name}/{folder}")

    def see(self, root: Path, folder: str) -> Path:
        copy = root / "seen" / str(next(self._numbers))
        copy.parent.mkdir(exist_ok=True)
        self._store.fetch(f"{root.name}/{folder}", copy)
        return copy
