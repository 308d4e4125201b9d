"""The version of the package and of the jar in it; `build.sbt` reads it from here."""

__version__ = "0.1.0"
