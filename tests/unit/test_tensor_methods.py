"""Methods of other libraries' arrays: the error names the function that does the same here."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensor as xp
from tests.support import check


@pytest.mark.parametrize("name", ["sum", "reshape", "abs", "matmul", "softmax", "astype", "add"])
def test_a_function_that_is_no_method_is_named(name: str) -> None:
    x = xp.ones((2, 3), device="CPU")
    with pytest.raises(AttributeError, match=rf"write xp\.{name}\(x") as caught:
        getattr(x, name)
    check(not hasattr(x, name) and name in str(caught.value), f"{caught.value}")


@pytest.mark.parametrize(
    "name", ["nothing", "cpu", "zeros", "pi", "float32", "nn", "_sum", "__len_hint__", "concat"]
)
def test_any_other_name_raises_as_every_object_does(name: str) -> None:
    x = xp.ones(3, device="CPU")
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    check(str(caught.value) == f"'Tensor' object has no attribute {name!r}", f"{caught.value}")


def test_the_hint_works() -> None:
    x = xp.asarray(np.arange(6, dtype=np.float32), device="CPU")
    np.testing.assert_array_equal(float(xp.sum(x)), 15.0)


def test_an_attribute_that_raises_keeps_its_own_reason() -> None:
    x = xp.ones(3, device="CPU")
    with pytest.raises(AttributeError) as caught:
        _ = x.__cuda_array_interface__
    check("no attribute" not in str(caught.value) and "CPU" in str(caught.value), f"{caught.value}")


def test_copies_and_pickles_ask_for_no_method() -> None:
    x = xp.ones(3, device="CPU")
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        np.testing.assert_array_equal(made.numpy(), np.ones(3, np.float32))
