"""The standard's elementwise functions, and `where`, `clip`, `astype`.

Most are one node and are made from a table; the rest compose. Functions of floats take integers
as float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from tensor import ops
from tensor.arguments import OPERAND, takes_tensors
from tensor.core import Operand, Tensor, common_device, not_a_tensor
from tensor.promotion import Scalar, as_dtype, as_scalar, floating, scalar_dtype

__all__ = [
    "abs_",
    "acos",
    "acosh",
    "add",
    "apply",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow_",
    "reciprocal",
    "remainder",
    "round_",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "tensor",
    "trunc",
    "where",
]  # fmt: skip

Unary = Callable[[Tensor], Tensor]
Binary = Callable[[Operand, Operand], Tensor]


def tensor(x: Operand, beside: Tensor) -> Tensor:
    """A scalar as the 0-d tensor that it becomes with another tensor; a tensor unchanged."""
    if isinstance(x, Tensor):
        return x
    node = ops.beside(graph.const(0, beside.dtype), as_scalar(x))[1]
    return Tensor(node, beside.device)


def _named(name: str, doc: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _math(name: str, op: str, doc: str) -> Unary:
    """A function of floats."""

    def function(x: Tensor, /) -> Tensor:
        if not isinstance(x, Tensor):
            raise not_a_tensor(x, f"x of {name}")
        node = x._node
        return Tensor(graph.unary(op, graph.cast(node, floating(node.dtype))), x.device)

    return _named(name, doc, function)


def _rounding(name: str, op: str, doc: str) -> Unary:
    """A function that leaves integers as they are."""

    def function(x: Tensor, /) -> Tensor:
        if not isinstance(x, Tensor):
            raise not_a_tensor(x, f"x of {name}")
        return Tensor(graph.unary(op, x._node), x.device) if x.dtype.kind == "f" else +x

    return _named(name, doc, function)


def _binary(name: str, op: str, doc: str, swapped: bool = False, kinds: str = "buif") -> Binary:
    """A function of two arrays, or of an array and a scalar."""

    def function(x1: Operand, x2: Operand, /) -> Tensor:
        if not isinstance(x1, Tensor) or not isinstance(x2, Tensor):
            _need_numbers(name, x1, x2)
        if swapped:
            x1, x2 = x2, x1
        result = apply(op, x1, x2)
        if kinds != "buif":
            for x in (x1, x2):
                if isinstance(x, Tensor) and x.dtype.kind not in kinds:
                    raise TypeError(f"{name} is not defined for {x.dtype.name}")
        return result

    return _named(name, doc, function)


def _need_numbers(name: str, x1: Operand, x2: Operand) -> None:
    """Raises: TypeError unless each is a tensor or a number, and one of them a tensor."""
    if not isinstance(x1, OPERAND):
        raise not_a_tensor(x1, f"x1 of {name}")
    if not isinstance(x2, OPERAND):
        raise not_a_tensor(x2, f"x2 of {name}")
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        raise TypeError(f"{name} of two numbers: make x1 or x2 a tensor with asarray")


def apply(op: str, x1: Operand, x2: Operand) -> Tensor:
    """A binary op, of which one operand may be a scalar."""
    if isinstance(x1, Tensor):
        if isinstance(x2, Tensor):
            return Tensor(ops.binary(op, x1._node, x2._node), common_device([x1, x2]))
        return Tensor(ops.with_value(op, x1._node, x2), x1.device)
    if isinstance(x2, Tensor):
        return Tensor(ops.with_value(op, x2._node, x1, True), x2.device)
    raise not_a_tensor(x2, f"an operand of {op}")


acos = _math("acos", "acos", "Inverse cosine, in radians.")
acosh = _math("acosh", "acosh", "Inverse hyperbolic cosine.")
asin = _math("asin", "asin", "Inverse sine, in radians.")
asinh = _math("asinh", "asinh", "Inverse hyperbolic sine.")
atan = _math("atan", "atan", "Inverse tangent, in radians.")
atanh = _math("atanh", "atanh", "Inverse hyperbolic tangent.")
cos = _math("cos", "cos", "Cosine of radians.")
cosh = _math("cosh", "cosh", "Hyperbolic cosine.")
erf = _math("erf", "erf", "Error function (not in the standard).")
exp = _math("exp", "exp", "e to the power x.")
exp2 = _math("exp2", "exp2", "2 to the power x (not in the standard).")
expm1 = _math("expm1", "expm1", "exp(x) - 1, accurate near zero.")
log = _math("log", "log", "Natural logarithm.")
log10 = _math("log10", "log10", "Logarithm to base 10.")
log1p = _math("log1p", "log1p", "log(1 + x), accurate near zero.")
log2 = _math("log2", "log2", "Logarithm to base 2.")
sin = _math("sin", "sin", "Sine of radians.")
sinh = _math("sinh", "sinh", "Hyperbolic sine.")
sqrt = _math("sqrt", "sqrt", "Square root, correctly rounded.")
tan = _math("tan", "tan", "Tangent of radians.")
tanh = _math("tanh", "tanh", "Hyperbolic tangent.")

ceil = _rounding("ceil", "ceil", "Smallest integer that is not less.")
floor = _rounding("floor", "floor", "Largest integer that is not greater.")
round_ = _rounding("round", "rint", "Nearest integer, halves to even.")
trunc = _rounding("trunc", "trunc", "Nearest integer towards zero.")

add = _binary("add", "add", "x1 + x2; of bool, logical or.")
atan2 = _binary("atan2", "atan2", "Angle of the point (x2, x1), in radians.")
bitwise_and = _binary("bitwise_and", "and", "Bits set in both.")
bitwise_left_shift = _binary("bitwise_left_shift", "shl", "Bits moved up by x2.")
bitwise_or = _binary("bitwise_or", "or", "Bits set in either.")
bitwise_right_shift = _binary("bitwise_right_shift", "shr", "Bits moved down by x2.")
bitwise_xor = _binary("bitwise_xor", "xor", "Bits set in exactly one.")
copysign = _binary("copysign", "copysign", "Magnitude of x1 with the sign of x2.")
divide = _binary("divide", "div", "x1 / x2; of integers, in float64.")
equal = _binary("equal", "eq", "x1 == x2, element by element.")
floor_divide = _binary("floor_divide", "floordiv", "x1 / x2 rounded down; integers by 0 give 0.")
greater = _binary("greater", "lt", "x1 > x2.", True)
greater_equal = _binary("greater_equal", "le", "x1 >= x2.", True)
hypot = _binary("hypot", "hypot", "sqrt(x1**2 + x2**2) without spurious overflow.")
less = _binary("less", "lt", "x1 < x2.")
less_equal = _binary("less_equal", "le", "x1 <= x2.")
maximum = _binary("maximum", "max", "The larger of the two; NaN if either is.")
minimum = _binary("minimum", "min", "The smaller of the two; NaN if either is.")
multiply = _binary("multiply", "mul", "x1 * x2; of bool, logical and.")
nextafter = _binary("nextafter", "nextafter", "The next float after x1 towards x2.")
not_equal = _binary("not_equal", "ne", "x1 != x2, element by element.")
pow_ = _binary("pow", "pow", "x1 to the power x2.")
remainder = _binary("remainder", "mod", "x1 - floor(x1 / x2) * x2, with the sign of x2.")
subtract = _binary("subtract", "sub", "x1 - x2; not defined for bool.")
logical_and = _binary("logical_and", "and", "Both true.", kinds="b")
logical_or = _binary("logical_or", "or", "Either true.", kinds="b")
logical_xor = _binary("logical_xor", "xor", "Exactly one true.", kinds="b")


@takes_tensors
def abs_(x: Tensor, /) -> Tensor:
    """Magnitude; the smallest signed integer stays as it is."""
    return abs(x)


@takes_tensors
def negative(x: Tensor, /) -> Tensor:
    """-x; integers wrap. Raises: TypeError for bool."""
    return -x


@takes_tensors
def positive(x: Tensor, /) -> Tensor:
    """x."""
    return +x


@takes_tensors
def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit flipped; of bool, logical not."""
    return ~x


@takes_tensors
def logical_not(x: Tensor, /) -> Tensor:
    """True where x is false. Raises: TypeError unless bool."""
    if x.dtype is not dt.bool_:
        raise TypeError(f"logical_not is not defined for {x.dtype.name}; compare with 0")
    return ~x


@takes_tensors
def square(x: Tensor, /) -> Tensor:
    """x * x."""
    return x * x


@takes_tensors
def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x; of integers, in float64."""
    return 1.0 / x if x.dtype.kind == "f" else 1 / x


@takes_tensors
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN stays NaN and both zeros give 0. Raises: TypeError for bool."""
    if x.dtype is dt.bool_:
        raise TypeError("sign is not defined for bool")
    if x.dtype.kind == "u":
        return astype(x > 0, x.dtype)
    step = astype(x > 0, x.dtype) - astype(x < 0, x.dtype)
    return where(x != x, x, step) if x.dtype.kind == "f" else step


@takes_tensors
def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, also of zeros and NaN."""
    _need_float("signbit", x.dtype)
    bits = graph.bitcast(x._node, dt.BY_NAME[f"int{x.dtype.bits}"])
    return Tensor(ops.with_value("lt", bits, 0), x.device)


@takes_tensors
def isfinite(x: Tensor, /) -> Tensor:
    """Neither infinite nor NaN; true for integers."""
    return abs(x) < math.inf if x.dtype.kind == "f" else _constant(True, x)


@takes_tensors
def isinf(x: Tensor, /) -> Tensor:
    """Infinite, of either sign."""
    if x.dtype.kind != "f":
        return _constant(False, x)
    result: Tensor = abs(x) == math.inf
    return result


@takes_tensors
def isnan(x: Tensor, /) -> Tensor:
    """Not a number."""
    if x.dtype.kind != "f":
        return _constant(False, x)
    result: Tensor = x != x
    return result


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow; of integers, in float64."""
    _need_numbers("logaddexp", x1, x2)
    x1, x2 = (astype(x, floating(x.dtype)) if isinstance(x, Tensor) else x for x in (x1, x2))
    high, low = maximum(x1, x2), minimum(x1, x2)
    difference = where(high == low, 0.0, low - high)
    return high + log1p(exp(difference))


def _never(op: str, bound: Scalar, dtype: DType) -> bool:
    """Whether an integer bound lies outside of what integers of `dtype` can be."""
    if dtype.kind not in "iu" or not isinstance(bound, int):
        return False
    low, high = dt.limits(dtype)
    return bound < low if op == "max" else bound > high


@takes_tensors
def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x between `min` and `max`, in x's dtype; either may be None."""
    result = x
    for op, bound in (("max", min), ("min", max)):
        if bound is None:
            continue
        if not isinstance(bound, Tensor):
            bound = as_scalar(bound)
            if _never(op, bound, x.dtype):
                continue
        result = apply(op, result, bound)
    return astype(result, x.dtype)


@takes_tensors
def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """x1 where `condition`, else x2; the three broadcast. Raises: TypeError unless bool."""
    if condition.dtype is not dt.bool_:
        raise TypeError(f"where needs a bool condition, not {condition.dtype.name}; compare with 0")
    given = [x for x in (x1, x2) if isinstance(x, Tensor)]
    device = common_device([condition, *given])
    if given:
        a, b = (tensor(x, given[0])._node for x in (x1, x2))
    else:
        kind = scalar_dtype(*(x for x in (x1, x2) if not isinstance(x, Tensor)))
        a, b = (ops.constant(x, kind) for x in (x1, x2))
    return Tensor(ops.where(condition._node, a, b), device)


@takes_tensors
def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The elements in another dtype. Tensors are values, so that `copy` changes nothing.

    A float outside an integer dtype becomes its nearest limit, and NaN 0, on every device.
    """
    result = Tensor(graph.cast(x._node, as_dtype(dtype)), x.device)
    return result if device is None else result.to(device)


@takes_tensors
def bitcast(x: Tensor, dtype: DType, /) -> Tensor:
    """The same bits as another dtype of equal size (not in the standard).

    A bool is a byte of 0 or 1, and every byte that is not 0 is True.
    """
    if as_dtype(dtype).itemsize != x.dtype.itemsize:
        raise TypeError(f"{x.dtype.name} and {dtype.name} differ in size; use astype")
    change = graph.cast if dt.bool_ in (dtype, x.dtype) else graph.bitcast
    return Tensor(change(x._node, dtype), x.device)


def _constant(value: bool, x: Tensor) -> Tensor:
    return Tensor(graph.const(value, dt.bool_, x.shape), x.device)


def _need_float(name: str, dtype: DType) -> None:
    if dtype.kind != "f":
        raise TypeError(f"{name} needs a floating dtype, not {dtype.name}; use astype")
