"""Errors and rank statistics against values worked out on paper, and against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configurator.validate.statistics import errors_of, kendall_tau, spearman_rho


def test_errors_are_fractions_of_what_was_measured() -> None:
    errors = errors_of([(110.0, 100.0), (80.0, 100.0), (100.0, 100.0)], refused=2)
    assert (errors.n, errors.refused) == (3, 2)
    assert errors.median_ape == pytest.approx(0.1)
    assert errors.mean_ape == pytest.approx(0.1)
    assert errors.bias == pytest.approx(-0.1 / 3)


def test_nothing_to_compare_has_no_errors() -> None:
    errors = errors_of([], refused=1)
    assert errors.median_ape is None
    assert errors.kendall_tau is None
    assert errors_of([(1.0, 2.0)]).kendall_tau is None


def test_tau_counts_pairs() -> None:
    # Of the six pairs five are ordered alike and one (3, 2) is not.
    first, second = np.asarray([1.0, 2.0, 3.0, 4.0]), np.asarray([1.0, 3.0, 2.0, 4.0])
    assert kendall_tau(first, second) == pytest.approx((5 - 1) / 6)
    # One tie on each side, in different pairs: 3 alike of 6, scale sqrt(5 * 5).
    tied = kendall_tau(np.asarray([1.0, 1.0, 2.0, 3.0]), np.asarray([1.0, 2.0, 3.0, 3.0]))
    assert tied == pytest.approx(4 / 5)
    assert kendall_tau(np.ones(3), np.arange(3.0)) is None


VALUES = st.lists(st.sampled_from([1.0, 2.0, 2.5, 4.0, 8.0]), min_size=3, max_size=9)


@given(first=VALUES, second=VALUES)
def test_rho_is_that_of_pandas_ranks(first: list[float], second: list[float]) -> None:
    count = min(len(first), len(second))
    left, right = np.asarray(first[:count]), np.asarray(second[:count])
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert spearman_rho(left, right) is None
        return
    ranks = pd.Series(left).rank().corr(pd.Series(right).rank())
    assert spearman_rho(left, right) == pytest.approx(ranks)
