"""The simulated card that the environment names."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.target import Sku
from configurator.errors import UsageError

SKU_VARIABLE = "AIC_SKU"


def sku_named(environment: Mapping[str, str]) -> Sku | None:
    """The SKU by `SKU_VARIABLE`, `None` where it is empty or not set; raises `UsageError`."""
    named = environment.get(SKU_VARIABLE)
    if not named:
        return None
    try:
        return Sku(named)
    except ValueError:
        known = ", ".join(sku.value for sku in Sku)
        raise UsageError(f"{SKU_VARIABLE}={named}: unknown card; known: {known}") from None
