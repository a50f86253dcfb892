"""What simulates: a version that changes whenever results may change."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@lru_cache(maxsize=1)
def simulator_version() -> str:
    """The release, and a digest of the simulator's own source."""
    try:
        release = version("aic-configurator")
    except PackageNotFoundError:
        release = "0"
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{release}+{digest.hexdigest()[:10]}"
