"""The pages of the documentation, and the programs in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

_Found = TypeVar("_Found")


def written(repository: Path) -> list[Path]:
    """README and all pages of the site that people have written: neither errors nor the command line."""
    pages = [page for page in sorted((repository / "docs").rglob("*.md")) if page.parent.name != "errors"]
    return [repository / "README.md", *(page for page in pages if page.name != "command-line.md")]


def example(repository: Path, document: str, name: str, language: str = "python") -> str:
    """The block of a document that follows <!-- example:NAME -->.

    Raises:
        LookupError: there is none.
    """
    found = re.search(
        rf"<!-- example:{name} -->\n```{language}\n(.*?)```", _text(repository, document), re.DOTALL
    )
    return _there(found, f"{document} has no example {name}")[1]


def shown_example(repository: Path, document: str, name: str) -> tuple[str, str]:
    """The block of a document that follows <!-- example:NAME -->, and the output that is shown after it.

    Raises:
        LookupError: there is none, or none with its output.
    """
    block = re.compile(rf"<!-- example:{name} -->\n```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
    found = _there(
        block.search(_text(repository, document)), f"{document} has no example {name} with its output"
    )
    return found[1], found[2]


def examples(repository: Path, document: str, name: str = r"[\w-]+") -> tuple[str, str]:
    """All Python examples of a document, or those of a name, as one script, and what they print there.

    Raises:
        LookupError: there are none.
    """
    block = re.compile(rf"<!-- example:{name} -->\n```python\n(.*?)```\n(?:\n```\n(.*?)```)?", re.DOTALL)
    found = _there(block.findall(_text(repository, document)), f"{document} has no examples")
    return "\n".join(code for code, _ in found), "\n".join(shown for _, shown in found)


def test_files(repository: Path, document: str) -> dict[str, str]:
    """The blocks of a document that follow <!-- test-file:NAME -->, by these names.

    Raises:
        LookupError: there are none.
    """
    block = re.compile(r"<!-- test-file:(\w+) -->\n```python\n(.*?)```", re.DOTALL)
    return dict(_there(block.findall(_text(repository, document)), f"{document} has no test files"))


def _text(repository: Path, document: str) -> str:
    return (repository / document).read_text(encoding="utf-8")


def _there(found: _Found | None, missing: str) -> _Found:
    if not found:
        raise LookupError(missing)
    return found
