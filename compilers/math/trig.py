"""float32 sin, cos and tan, evaluated in float64; huge arguments go to the C library."""

from __future__ import annotations

from math import pi

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.build import bits, call, cast, mad, op, poly, where

LIMIT = 1.0e6
"""Below it the quadrant times the first part of pi/2 is exact."""
MAGIC = 1.5 * 2.0**52
HALF_PI_HIGH = float.fromhex("0x1.921fb54400000p+0")
HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
"""pi/2 in 33 bits, and the next 53."""
SIN = (-0.16666666640611877, 0.008333329266638028, -0.00019839296107757747, 2.717939716235977e-06)
"""(sin(r) - r) / r**3 in r**2, for |r| <= pi/4."""
COS = (0.041666666621049696, -0.001388888359809195, 2.479947858509822e-05, -2.7206785186132585e-07)
"""(cos(r) - 1 + r**2 / 2) / r**4 in r**2, for |r| <= pi/4."""


def _parts(x: Expr) -> tuple[Expr, Expr, Expr]:
    """The quadrant's word, and sin and cos of the angle left in it."""
    wide = cast(x, dt.float64)
    held = mad(wide, 2 / pi, MAGIC)
    n = op("sub", held, MAGIC)
    r = mad(n, -HALF_PI_LOW, mad(n, -HALF_PI_HIGH, wide))
    square = op("mul", r, r)
    sine_part = op("mul", r, poly(square, (1.0, *SIN)))
    return cast(bits(held), dt.uint32), sine_part, poly(square, (1.0, -0.5, *COS))


def _bit(quadrant: Expr, value: int) -> Expr:
    return op("ne", op("and", quadrant, value), 0)


def _exact(name: str, x: Expr, result: Expr) -> Expr:
    """The C library where the reduction is not exact; infinity and NaN need no special case."""
    rare = op("lt", LIMIT, op("abs", x))
    return call(name, x, rare=rare, fast=cast(result, dt.float32))


def wave(name: str, ahead: int, x: Expr) -> Expr:
    """The sine of x and so many quadrants: `name` is the C function for that."""
    quadrant, s, c = _parts(x)
    quadrant = op("add", quadrant, ahead)
    value = where(_bit(quadrant, 1), c, s)
    return _exact(name, x, where(_bit(quadrant, 2), op("neg", value), value))


def tangent(x: Expr) -> Expr:
    """tan."""
    quadrant, s, c = _parts(x)
    odd = _bit(quadrant, 1)
    return _exact("tan", x, op("div", where(odd, c, s), where(odd, op("neg", s), c)))
