"""The pages of the documentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def written(repository: Path) -> list[Path]:
    """README and all pages of the site that people have written: neither errors nor the command line."""
    pages = [page for page in sorted((repository / "docs").rglob("*.md")) if page.parent.name != "errors"]
    return [repository / "README.md", *(page for page in pages if page.name != "command-line.md")]


def example(repository: Path, document: str, name: str, language: str = "python") -> str:
    """The block of a document that follows <!-- example:NAME -->."""
    text = (repository / document).read_text()
    found = re.search(rf"<!-- example:{name} -->\n```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"{document} has no example {name}"
    return found[1]


def examples(repository: Path, document: str, name: str = r"[\w-]+") -> tuple[str, str]:
    """All Python examples of a document, or those of a name, as one script, and what they print there."""
    text = (repository / document).read_text()
    block = re.compile(rf"<!-- example:{name} -->\n```python\n(.*?)```\n(?:\n```\n(.*?)```)?", re.DOTALL)
    found = block.findall(text)
    assert found, f"{document} has no examples"
    return "\n".join(code for code, _ in found), "\n".join(shown for _, shown in found)
