"""What all subcommands of `tailrace` have in common."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tailrace.commands import cli


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: tailrace")
    for command in ("demo", "doctor", "inspect", "state", "size", "watermark-server"):
        assert f"\n    {command}" in out


@pytest.mark.parametrize("size", ["10x", "", "0g", "-1g", "two"])
def test_a_heap_that_is_no_size(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["state", "rescale", "somewhere", "--partitions", "3", f"--driver-memory={size}"])
    assert ended.value.code == 2
    assert "isn't a size of a heap: write one such as 2g or 512m" in capsys.readouterr().err


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "tailrace", "size", "--constants"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == ""
    assert command.wait() == 0
