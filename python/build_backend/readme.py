"""The README as a package index shows it: links and pictures lead to the files of the version's tag.

Standard library only: the build's hook loads this file by its path.
"""

from __future__ import annotations

import re

# Code between fences is left as it is.
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z][a-z0-9+.-]*:|#)([^)\s]+)\)")


def absolute(text: str, repository: str, tag: str) -> str:
    """Returns Markdown whose relative links are URLs.

    Args:
        text: the README, whose links are relative to the repository's root.
        repository: the repository's URL, on GitHub.
        tag: the tag that the links lead to.
    """

    def rewritten(found: re.Match[str]) -> str:
        picture, label, path = found.groups()
        # A page of a file isn't a picture.
        kind = "raw" if picture else "blob"
        inside = _LINK.sub(rewritten, label)
        return f"{picture}[{inside}]({repository}/{kind}/{tag}/{path.removeprefix('./')})"

    parts = _FENCED.split(text)
    # The fenced parts are every second one.
    return "".join(part if index % 2 else _LINK.sub(rewritten, part) for index, part in enumerate(parts))


def relative(text: str) -> list[str]:
    """The targets of links that lead nowhere on a package index, pictures included."""
    return [found[3] for part in _FENCED.split(text)[::2] for found in _LINK.finditer(part)]
