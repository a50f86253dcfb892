"""Choose settings, measure them, remember the results, show them."""
