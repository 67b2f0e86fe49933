"""Kernel IR with lanes to the text of a WGSL module."""

from __future__ import annotations

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const
from compilers.ir import Expr, Kernel
from compilers.math.build import HALVES, op
from compilers.math.expand import Expander
from compilers.math.half import half_bits, half_value
from compilers.math.single import CALLED, SINGLES, WIDE
from compilers.render.walk import Walker, stored_refs
from compilers.wgsl.printer import WgslPrinter
from compilers.wgsl.words import Words
from queues.webgpu.kernel_code import HALF

INT64 = "shader-int64"
FLOAT64 = "shader-f64"


class WgslExpander(Expander):
    """Products may round twice: a fused step of kernels is two ops here. Functions that need one
    rounding name `fma` after this; remainders are made of integers. Without float64,
    others are made in float32."""

    def __init__(self, features: frozenset[str]) -> None:
        super().__init__(frozenset(), native_half=HALF in features, soft=True)
        self.narrow = FLOAT64 not in features
        self.own = CALLED if self.narrow else WIDE

    def _rewrite(self, expr: Expr, src: list[Expr]) -> Expr:
        if expr.op == "const" and expr.dtype in HALVES:
            return const(half_bits(float(expr.arg), expr.dtype), dt.uint16)
        return super()._rewrite(expr, src)

    def _cast(self, x: Expr, source: DType, target: DType) -> Expr:
        """Of a 16-bit constant, its value: the printer has to know of a zero that it is one."""
        if source in HALVES and x.op == "const":
            x, source = const(half_value(int(x.arg), source), dt.float32), dt.float32
        return super()._cast(x, source, target)

    def _plain(self, name: str, src: list[Expr]) -> Expr:
        if self.narrow and name in SINGLES and src[0].dtype is dt.float32:
            return SINGLES[name](*src)
        return op("mad", *src) if name == "fma" else super()._plain(name, src)


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """Equal kernels give equal texts. It is printed twice: how an array is declared depends on all
    accesses to it.

    Raises: TypeError for an op its dtype does not have; Unsupported for 64-bit integers or floats
    that the adapter does not have.
    """
    expander = WgslExpander(features)
    stored = stored_refs((kernel.body,))
    everything = frozenset((*kernel.params, *kernel.locals))
    first = WgslPrinter(kernel, Words(features, INT64, FLOAT64), stored, frozenset())
    Walker(kernel, first, expander).run()
    whole = frozenset(everything - first.parts)
    again = WgslPrinter(kernel, Words(features, INT64, FLOAT64), stored, whole)
    return Walker(kernel, again, expander).run()
