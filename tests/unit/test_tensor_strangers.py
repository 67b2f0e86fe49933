"""What is no tensor is refused by every public function: argument, function and asarray by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tensor as xp
from tests.support import check

LINE, SQUARE, KEY = xp.ones(3), xp.ones((3, 3)), xp.full(2, 7, dtype=xp.uint32)
WHOLE, MASK = xp.arange(3), xp.full(3, True)
IMAGE, KERNEL = xp.ones((1, 1, 3, 3)), xp.ones((1, 1, 2, 2))

NUMBERS = [1.0, np.float64(1.0), np.int64(1), True]
STRANGERS = [np.ones(3), [1.0, 2.0], (1, 2), "a", 1j, np.complex64(1), object(), np.float32]

WITHOUT_TENSORS = {
    "DType", "Tensor", "arange", "asarray", "broadcast_shapes", "dtype_from", "empty", "eye",
    "from_blob", "from_dlpack", "full", "isdtype", "jit", "linspace", "memory_stats",
    "native_handles", "ones", "torch_dtype", "zeros", "__array_namespace_info__", "random.key",
}  # fmt: skip
"""Public callables that take no tensor, or anything that can become one."""

ARGUMENTS = {
    "astype": (LINE, xp.int32), "bitcast": (LINE, xp.int32), "bitwise_invert": (WHOLE,),
    "logical_not": (MASK,), "where": (MASK, LINE, LINE), "can_cast": (LINE, xp.float64),
    "full_like": (LINE, 1), "tril": (SQUARE,), "triu": (SQUARE,), "einsum": ("i->i", LINE),
    "matrix_transpose": (SQUARE,), "permute_dims": (SQUARE, (1, 0)), "moveaxis": (SQUARE, 0, 1),
    "reshape": (LINE, (3, 1)), "squeeze": (xp.ones((1, 3)), 0), "broadcast_to": (LINE, (2, 3)),
    "pad": (LINE, [(1, 1)]), "roll": (LINE, 1), "split": (LINE, 3), "tile": (LINE, 2),
    "repeat": (LINE, 2), "take": (LINE, WHOLE), "take_along_axis": (LINE, WHOLE),
    "concat": ([LINE, LINE],), "stack": ([LINE, LINE],), "topk": (LINE, 2),
    "iinfo": (WHOLE,), "conv2d": (IMAGE, KERNEL, LINE[:1]), "max_pool2d": (IMAGE, 2),
    "avg_pool2d": (IMAGE, 2), "embedding": (SQUARE, WHOLE),
    "layer_norm": (LINE, LINE, LINE), "rms_norm": (LINE, LINE), "clip": (LINE, 0, LINE),
    "scaled_dot_product_attention": (SQUARE, SQUARE, SQUARE), "tensordot": (SQUARE, SQUARE),
    "matmul": (SQUARE, SQUARE), "random.split": (KEY,), "random.fold_in": (KEY, 1),
    "random.bits": (KEY, 2), "random.uniform": (KEY, 2), "random.normal": (KEY, 2),
    "random.randint": (KEY, 2, 0, 5), "random.permutation": (KEY, LINE),
    "random.threefry2x32": (KEY, KEY, KEY),
} | {f"logical_{name}": (MASK, MASK) for name in ("and", "or", "xor")} | {
    f"bitwise_{name}": (WHOLE, WHOLE)
    for name in ("and", "or", "xor", "left_shift", "right_shift")
}  # fmt: skip
"""Arguments that are right, where they are not one float tensor for each tensor argument."""


def public():
    """Every public callable of the namespace by its name."""
    found = {name: getattr(xp, name) for name in xp.__all__ if callable(getattr(xp, name))}
    for module in (xp.nn, xp.random):
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                short = module.__name__.rpartition(".")[2]
                if not name.startswith("_") and found.get(name) is not value:
                    found[f"{short}.{name}"] = value
    return found


PUBLIC = public()
TESTED = sorted(set(PUBLIC) - WITHOUT_TENSORS)
ELSEWHERE = {"export_dmabuf"}
"""Those that this device cannot do: tests/boards/test_sharing_dmabuf.py."""


def tensor_parameters(function):
    """The parameters that are tensors: each with whether a number or None is right there too."""
    for parameter in inspect.signature(function).parameters.values():
        note = str(parameter.annotation)
        if any(word in note for word in ("Tensor", "Operand", "Typed")):
            yield parameter, "Operand" in note or "Number" in note, "None" in note


def called_with(function, arguments, parameter, stranger):
    """The call with one argument changed to `stranger`."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        rest = [x for x in arguments if isinstance(x, str)]
        return lambda: function(*rest, LINE, stranger)
    if "Sequence[Tensor]" in str(parameter.annotation):
        return lambda: function([LINE, stranger])
    if parameter.kind is parameter.KEYWORD_ONLY:
        return lambda: function(*arguments, **{parameter.name: stranger})
    at = list(inspect.signature(function).parameters).index(parameter.name)
    return lambda: function(*[stranger if i == at else x for i, x in enumerate(arguments)])


def test_every_function_is_known():
    unknown = sorted(name for name in TESTED if not list(tensor_parameters(PUBLIC[name])))
    np.testing.assert_equal(unknown, [], "these take no tensor, as it seems")
    np.testing.assert_equal(sorted((WITHOUT_TENSORS | set(ARGUMENTS)) - set(PUBLIC)), [])
    check(len(TESTED) > 120, f"only {len(TESTED)} functions are found")


@pytest.mark.parametrize("name", TESTED)
def test_strangers_are_refused(name):
    function, tried = PUBLIC[name], 0
    for parameter, numbers, optional in tensor_parameters(function):
        if parameter.name == "repeats":  # a sequence of counts is right there
            continue
        given = ARGUMENTS.get(name) or tuple(
            LINE for p, _, _ in tensor_parameters(function) if p.kind is not p.KEYWORD_ONLY
        )
        strangers = [*STRANGERS, *([] if numbers else NUMBERS), *([] if optional else [None])]
        if "int | Tensor" in str(parameter.annotation):
            strangers = [x for x in strangers if not isinstance(x, int | np.integer)]
        for stranger in strangers:
            refused(name, parameter, called_with(function, given, parameter, stranger), stranger)
            tried += 1
    check(tried > 0, "nothing was tried")


def refused(name, parameter, call, stranger):
    """The error of `call` is a TypeError that names everything."""
    what = f"{name}({parameter.name}={stranger!r})"
    try:
        call()
    except TypeError as error:
        text = str(error)
    else:
        raise AssertionError(f"{what} is taken")
    several = parameter.kind is parameter.VAR_POSITIONAL or "Sequence" in str(parameter.annotation)
    for word in ("asarray", name.rpartition(".")[2], "" if several else parameter.name):
        check(word in text, f"{what}: {word!r} is not in {text!r}")


@pytest.mark.parametrize("name", sorted(set(TESTED) - ELSEWHERE))
def test_the_right_arguments_are_taken(name):
    """Without this, a function that refuses everything would pass."""
    function = PUBLIC[name]
    needed = [p for p, _, _ in tensor_parameters(function) if p.kind is not p.KEYWORD_ONLY]
    function(*(ARGUMENTS.get(name) or [LINE] * len(needed)))
