"""The Spark settings of a user outside the builder: spark-defaults.conf and PYSPARK_SUBMIT_ARGS.

A builder's option replaces the same option of these places, so code that appends to one must read them. A
running JVM has them itself.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.find_spark_home import _find_spark_home  # pyright: ignore[reportPrivateUsage]

from tailrace.errors import TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# spark-submit's options that are properties by another name; only those that concern `configure`.
_ALIASES = {"--jars": "spark.jars", "--remote": "spark.remote"}


@dataclass(frozen=True)
class LaunchSettings:
    """Spark properties by name.

    Attributes:
        defaults: those of spark-defaults.conf, or of the file that --properties-file names instead.
        submit: those of PYSPARK_SUBMIT_ARGS, which win over the builder's when the JVM's class path is made.
    """

    defaults: Mapping[str, str]
    submit: Mapping[str, str]

    def merged(self) -> dict[str, str]:
        """All of them, as Spark ranks them: arguments over the file."""
        return {**self.defaults, **self.submit}


def launch_settings(environ: Mapping[str, str]) -> LaunchSettings:
    """Reads the properties that a JVM started from this process would begin with.

    Args:
        environ: environment variables; PYSPARK_SUBMIT_ARGS and SPARK_CONF_DIR are read.

    Raises:
        TailraceSessionError: the arguments can't be split into words, or the file can't be read.
    """
    try:
        arguments = shlex.split(environ.get(_SUBMIT_ARGS, ""))
    except ValueError as error:
        raise TailraceSessionError(
            f"{_SUBMIT_ARGS} can't be split into words ({error}), and pyspark can't start Spark with it: "
            f"close the quotation in {environ[_SUBMIT_ARGS]}, or unset it."
        ) from error
    submit, properties_file = _submit_properties(arguments)
    file = Path(properties_file) if properties_file else conf_dir(environ) / "spark-defaults.conf"
    return LaunchSettings(defaults=_parse_properties(_lines(file)), submit=submit)


def _lines(file: Path) -> list[str]:
    try:
        # As Spark reads it, bytes that aren't UTF-8 included.
        return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    except OSError as error:
        raise TailraceSessionError(
            f"Spark's settings in {file} can't be read ({error.strerror}): make the file readable, or name "
            "another directory by SPARK_CONF_DIR."
        ) from error


def conf_dir(environ: Mapping[str, str]) -> Path:
    """The directory of Spark's configuration.

    Args:
        environ: environment variables; SPARK_CONF_DIR is read.
    """
    return Path(environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))


def _submit_properties(arguments: list[str]) -> tuple[dict[str, str], str | None]:
    """The properties among spark-submit's arguments, both as `--name value` and as `--name=value`."""
    properties: dict[str, str] = {}
    aliased: dict[str, str] = {}
    file: str | None = None
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in {"--conf", "-c", "--properties-file", *_ALIASES}:
            continue
        if not equals:
            value = next(rest, "")
        if name == "--properties-file":
            file = value
        elif name in _ALIASES:
            aliased[_ALIASES[name]] = value
        else:
            key, _, setting = value.partition("=")
            properties[key.strip()] = setting.strip()
    # spark-submit prefers --jars over --conf spark.jars, in any order.
    return {**properties, **aliased}, file


def _parse_properties(lines: Iterable[str]) -> dict[str, str]:
    """Reads Java properties: `name value`, `name=value` or `name: value` per line, comments after # or !."""
    found = (re.match(r"\s*([^\s#!=:][^\s=:]*)\s*[=:]?\s*(.*?)\s*$", line) for line in lines)
    return {match[1]: match[2] for match in found if match is not None}
