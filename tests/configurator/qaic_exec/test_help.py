"""What help prints: golden text, kept to be looked at when it changes, and what must be in it."""

from __future__ import annotations

from pathlib import Path

from configurator.qaic_exec.flags import BY_NAME
from configurator.qaic_exec.help import USAGE, help_text

GOLDEN = Path(__file__).parent / "golden" / "help.txt"


def test_golden_help_text() -> None:
    """Golden: says nothing of right or wrong. To renew it: qaic-exec-sim -h > the file."""
    assert help_text() + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_every_option_is_listed_and_lines_fit() -> None:
    words = help_text().replace(",", " ").replace("=", " ").split()
    assert set(BY_NAME) <= set(words)
    texts = [line for line in help_text().splitlines() if not line.startswith("  -")]
    assert max(map(len, texts)) <= 99
    assert help_text().startswith(USAGE)
