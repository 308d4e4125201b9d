"""What all tests share. It comes before the other conftest.py, which imports pyspark's classes."""

from spark_minor import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]
