"""The writes of a change of an application's state: `Store` does them, a simulation needn't."""

# The methods of a protocol have docstrings only.
# pyright: reportReturnType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tailrace.server.protocol import WindowReport
    from tailrace.server.reporter import Client, Reporter
    from tailrace.server.state import App, Operator

AuditLine = tuple[str, str, int | None, str | None, str, str]
"""Action, operator, time advanced to, host or client, who, reason."""


class Journal(Protocol):
    """Writes of one transaction; state in memory is changed by its caller."""

    def was_replaced(self, client: Client, run: str) -> bool:
        """True if a run has reported for a client before the current one."""

    def has_former_runs(self, client: Client) -> bool:
        """True if any run has reported for a client before the current one."""

    def add_client(self, app: App, client: Client) -> None:
        """Writes a new client, and gives it its id."""

    def replace_run(self, client: Client, run: str) -> None:
        """Writes that another run reports for the client; the former one never does again."""

    def drop_client(self, app: App, client: Client) -> None:
        """Deletes a client that no longer reports anything."""

    def add_operator(self, app: App, operator: Operator) -> None:
        """Writes a new operator, and gives it its id."""

    def put_operator(self, app: App, operator: Operator) -> None:
        """Writes changes of an operator itself."""

    def put_reporter(self, app: App, reporter: Reporter) -> None:
        """Writes changes of a reporter, except its hosts and key groups."""

    def put_client(self, app: App, client: Client) -> None:
        """Writes changes of a client."""

    def drop_operator(self, app: App, operator: Operator) -> None:
        """Deletes an operator with all of its data."""

    def add_reporter(self, app: App, operator: Operator, reporter: Reporter) -> None:
        """Writes a new reporter, and gives it its id."""

    def drop_reporter(self, app: App, reporter: Reporter) -> None:
        """Deletes a reporter with its hosts and key groups."""

    def put_progress(self, app: App, reporter: Reporter, progress: Mapping[str, int]) -> None:
        """Raises hosts' progress, as of the hosts' `active`."""

    def put_roster(self, app: App, reporter: Reporter, names: Sequence[str]) -> None:
        """Replaces a source's roster."""

    def forget_hosts(self, app: App, reporter: Reporter, names: Collection[str]) -> None:
        """Deletes hosts."""

    def put_groups(self, app: App, reporter: Reporter, low_watermarks: Mapping[str, int]) -> None:
        """Raises key groups' low watermarks."""

    def drop_groups(self, app: App, reporter: Reporter) -> None:
        """Deletes all key groups."""

    def put_excluded(self, operator: Operator, host: str, *, excluded: bool) -> None:
        """Excludes a host, or includes it again."""

    def put_window(self, operator: Operator, window: WindowReport) -> None:
        """Writes a window's completeness, unless there is a later report of it."""

    def add_audit(self, app: App, at: int, line: AuditLine) -> None:
        """Writes a line of the audit table."""
