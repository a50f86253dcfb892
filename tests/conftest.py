from __future__ import annotations

from hypothesis import settings

# Loaded unless `--hypothesis-profile` names another ("default" searches with fresh random
# examples): every run sees the same examples, and a slow machine is not a failure.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci")
