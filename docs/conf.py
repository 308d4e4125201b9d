"""The documentation's site: `sphinx-build -W -c docs . build/docs`, from the root of the repository.

The root is the source directory, so that pages link to files beside `docs` as they do where the repository is
read: to architecture, formats, decisions and results of benchmarks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "python")]

from tailrace._version import __version__  # noqa: E402

project = "Tailrace"
author = "The Tailrace maintainers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "generated",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/notebooks/*.ipynb",
    "jvm/docs/**.md",
    "benchmarks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
]

myst_enable_extensions = ["attrs_inline", "colon_fence"]
# Headings as GitHub names them in links.
myst_heading_anchors = 4

# The repository has no outputs of the notebook: the build runs it. Spark's log isn't one of them.
# The machine's name may have an address that the machine itself doesn't reach.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
nb_execution_mode = "auto"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_output_stderr = "remove"

# The signature has the types as a user writes them.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = True

html_theme = "furo"
html_title = f"Tailrace {release}"
html_copy_source = False
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp"
templates_path = ["templates"]
# Those of the theme, with the list of versions.
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}

if "POLYVERSION_DATA" in os.environ:  # one of several versions (versions.py)
    from sphinx_polyversion import load

    load(globals())
