"""The packages of an extra, and the command that installs them.

Tailrace isn't on a package index, so `pip install 'tailrace[server]'` finds nothing: the packages are named.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires


def install(*extras: str) -> str:
    """The pip command that installs the packages of extras.

    Args:
        extras: their names in pyproject.toml.
    """
    try:
        declared = requires("tailrace") or []
    except PackageNotFoundError:
        # The package is imported from its sources.
        return f"pip install '.[{','.join(extras)}]' in a clone of tailrace"
    packages = {
        requirement.strip()
        for requirement, _, marker in (line.partition(";") for line in declared)
        if any(re.search(rf"""extra == ['"]{re.escape(extra)}['"]""", marker) for extra in extras)
    }
    quoted = (f"'{package}'" for package in sorted(packages))
    return f"pip install {' '.join(quoted)}"
