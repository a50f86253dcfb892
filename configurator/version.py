"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("aic-configurator")
    except PackageNotFoundError:
        return "0+unknown"  # run from a source tree that is not installed


__version__ = _installed()
