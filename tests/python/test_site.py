"""The documentation's site: the page of the notebook, and a folder a version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watermark_servers import missing

pytestmark = pytest.mark.campaign

# What conf.py reads, and what the generated pages are made of.
NEEDED = ("docs/conf.py", "docs/generated.py", "docs/versions.py", "docs/site-root", "docs/templates")
SOURCES = ("python/tailrace", "jvm/src/main/resources")
INDEX = """# Pages

```{toctree}
:glob:

**
```
"""


@pytest.fixture(autouse=True)
def _sphinx() -> None:
    if not (Path(sys.executable).parent / "sphinx-build").exists():
        missing("no Sphinx in this environment: it has not the extra docs")


def _run(directory: Path, *command: str) -> None:
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    # As in an environment that was activated.
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ["PATH"]])
    done = subprocess.run(
        command, cwd=directory, env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_the_page_of_the_notebook_has_what_the_notebook_shows(repository: Path) -> None:
    # As CONTRIBUTING.md says. A build after another one runs the notebook only if it has changed.
    _run(repository, "sphinx-build", "-W", "--keep-going", "-q", "-c", "docs", ".", "build/docs")
    html = (repository / "build/docs/docs/notebooks/which-rows-wait.html").read_text()
    titles = re.findall(r"<p><b>([^<]*)</b></p>\n<table>", html)
    assert titles[0] == "The micro-batches"
    assert {"Waiting at 12:07: 4", "Out by 12:07: 1"} <= {*titles}
    # A frame per minute, with the script that chooses one of them.
    assert len(re.findall(r'aria-label="Timeline at 12:\d\d"', html)) == html.count("data-frame=") == 41
    assert 'document.getElementById("which-rows-wait")' in html
    # Scaffolding is folded.
    assert html.count("hide-input") == 6
    assert "Traceback" not in html
    assert re.findall(r'<script[^>]*src="https?:[^"]*"', html) == []


def test_each_version_has_a_folder_that_names_the_others(repository: Path, tmp_path: Path) -> None:
    clone, site = tmp_path / "clone", tmp_path / "site"
    for name in (*NEEDED, *SOURCES):
        source, target = repository / name, clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "jars"))
        else:
            shutil.copyfile(source, target)
    (clone / "docs/index.md").write_text(INDEX)

    def git(*command: str) -> None:
        _run(clone, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", *command)

    git("init", "-q", "--initial-branch", "main")
    git("add", ".")
    git("commit", "-q", "-m", "A release")
    git("tag", "v0.1.0")
    (clone / "docs/later.md").write_text("# What came later\n")
    git("add", ".")
    git("commit", "-q", "-m", "After it")
    git("branch", "aside")
    _run(clone, "sphinx-polyversion", "docs/versions.py", "../site", "-o", "ENVIRONMENT=this")

    versions = {"main", "v0.1.0"}
    assert {path.name for path in site.iterdir() if path.is_dir()} == versions
    assert {name for name in versions if (site / name / "docs/later.html").exists()} == {"main"}
    for name in versions:
        for page in ("docs/index.html", "docs/reference/command-line.html"):
            html = (site / name / page).read_text()
            links = re.findall(r'href="([^"]*)">(main|v0.1.0)</a>', html)
            assert {version for _, version in links} == versions
            targets = {(site / name / page).parent / link for link, _ in links}
            assert {target.resolve() for target in targets} == {
                site / v / "docs/index.html" for v in versions
            }
    assert "url=v0.1.0/docs/index.html" in (site / "index.html").read_text()
