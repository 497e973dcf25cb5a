"""Lists have a limit, also those made of large arrays: it is asked before the list is made."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rewriter.core.conditions.rule_values import Failure
from rewriter.core.conditions.value_functions import LIST_BODIES


@pytest.mark.parametrize("function", ["argsort", "nonzero", "set"])
def test_an_array_of_a_million_elements_is_no_list(function: str) -> None:
    array = np.ones(1_000_000, np.int8)
    tracemalloc.start()
    with pytest.raises(Failure, match="more than 65536 items"):
        LIST_BODIES[function](None, array)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
