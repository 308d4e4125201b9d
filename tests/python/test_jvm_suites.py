from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from jvm_suites import JvmSuites


@pytest.mark.parametrize(
    "command", ["test", pytest.param("jvm/testOnly -- -n campaign", marks=pytest.mark.campaign)]
)
def test_the_jvm_suites_pass(
    command: str, jvm_suites: Callable[[str], JvmSuites], capfd: pytest.CaptureFixture[str]
) -> None:
    suites = jvm_suites(command)
    with capfd.disabled():  # minutes of silence would look like a hang
        for text in suites.output():
            print(text, end="", flush=True)
    assert suites.exit_code == 0, f"sbt '{command}' failed; its output is above\n{suites.failures()}"
