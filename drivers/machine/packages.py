"""Python packages of this interpreter."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str | None:
    """Version of an installed Python package, None when it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
