"""How the text of arguments is read, and what is said of text that cannot be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator.cli import arguments
from configurator.errors import UsageError

VALUES = st.sets(st.integers(min_value=1, max_value=64), min_size=1)


@given(values=VALUES, data=st.data())
def test_lists_and_ranges_read_as_the_values_they_name(
    values: set[int], data: st.DataObject
) -> None:
    """Any mixture of single values and ranges, in any order, with blanks and repeats."""
    ordered = sorted(values)
    parts = [str(value) for value in ordered]
    parts += [f"{low}-{high}" for low, high in pairwise(ordered) if high == low + 1]
    parts += [f"{value} - {value}" for value in data.draw(st.lists(st.sampled_from(ordered)))]
    text = " , ".join(data.draw(st.permutations(parts)))
    assert arguments.parse_values("--cores", text) == tuple(ordered)


def test_the_documented_form() -> None:
    assert arguments.parse_values("--cores", "1-4,8,12") == (1, 2, 3, 4, 8, 12)
    assert arguments.parse_values("--cores", None) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "without a value"),
        ("1,,2", "without a value"),
        ("a", "must be like"),
        ("1.5", "must be like"),
        ("-3", "must be like"),
        ("1-", "must be like"),
        ("0", "start at 1"),
        ("0-4", "start at 1"),
        ("8-4", "write 4-8"),
        ("1-1000000000", "more than"),
        ("9" * 5000, "must be like"),
    ],
)
def test_a_bad_list_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"^--set-size ") as caught:
        arguments.parse_values("--set-size", text)
    assert said in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.integers(min_value=0, max_value=10**9)))
def test_symbols_are_pairs_sorted_by_name(symbols: dict[str, int]) -> None:
    texts = [f"{name}={value}" for name, value in symbols.items()]
    assert arguments.parse_symbols(texts) == tuple(sorted(symbols.items()))


def test_no_symbols() -> None:
    assert arguments.parse_symbols(None) == ()


@pytest.mark.parametrize("text", ["seq_len", "seq_len=", "=4", "seq_len=x", "seq_len=-1", "a=1.5"])
def test_a_bad_symbol_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be NAME=INT") as caught:
        arguments.parse_symbols([text])
    assert text in str(caught.value)


def test_a_symbol_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="a is given 2 times"):
        arguments.parse_symbols(["a=1", "b=2", "a=1"])


def test_the_cache_follows_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = arguments.cache_directory(None)
    assert made == tmp_path / "aic-configurator"
    assert made.is_dir()
    assert arguments.cache_directory(tmp_path / "own") == tmp_path / "own"


def test_an_unwritable_default_cache_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert arguments.cache_directory(None) is None
    assert "--cache-dir" in capsys.readouterr().err
