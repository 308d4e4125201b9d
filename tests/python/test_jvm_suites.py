from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from jvm_suites import JvmSuites


def test_the_jvm_suites_pass(jvm_suites: JvmSuites, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():  # minutes of silence would look like a hang
        for text in jvm_suites.output():
            print(text, end="", flush=True)
    assert jvm_suites.exit_code == 0, "sbt test failed; its output is above\n" + jvm_suites.failures()
