"""Kernel IR with lanes to the text of an ir3 kernel on virtual registers."""

from __future__ import annotations

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const
from compilers.ir import Expr, Kernel
from compilers.math.build import HALVES, bitcast, op
from compilers.math.expand import Expander
from compilers.math.half import half_bits, half_value
from compilers.math.single import CALLED, SINGLES
from compilers.qcom.images import Images
from compilers.qcom.printer import Ir3Printer
from compilers.qcom.targets import qcom_target
from compilers.render.walk import Walker
from queues.qcom.kernel_code import FLUSH16
from queues.qcom.textures import IMAGES


class Ir3Expander(Expander):
    """Functions of float32 are made in float32: there is no float64. A step a * b + c is mad.f32,
    which rounds twice; remainders, which need one rounding, are made of integers.

    That mad.f32 rounds twice is an assumption, not confirmed on silicon: Mesa 25.0.7 forms it of
    inexact products alone (ir3_compiler.c, fuse_ffma32), which does not prove it.
    """

    def __init__(self, *, flush16: bool = False) -> None:
        super().__init__(frozenset({"fma"}), native_half=True, soft=True, half_ops=flush16)
        self.own = CALLED
        self.flush16 = flush16

    def _rewrite(self, expr: Expr, src: list[Expr]) -> Expr:
        if expr.op == "const" and expr.dtype in HALVES:
            return const(half_bits(float(expr.arg), expr.dtype), dt.uint16)
        return super()._rewrite(expr, src)

    def _half(self, expr: Expr, src: list[Expr]) -> Expr:
        """A step a * b + c of halves is mad.f16, which rounds twice as mad.f32 does."""
        if self.flush16 and expr.op == "fma" and expr.dtype is dt.float16:
            return bitcast(op("mad", *(bitcast(one, dt.float16) for one in src)), dt.uint16)
        return super()._half(expr, src)

    def _cast(self, x: Expr, source: DType, target: DType) -> Expr:
        """Of a 16-bit constant, its value."""
        if source in HALVES and x.op == "const":
            x, source = const(half_value(int(x.arg), source), dt.float32), dt.float32
        return super()._cast(x, source, target)

    def _plain(self, name: str, src: list[Expr]) -> Expr:
        if name in SINGLES and src[0].dtype is dt.float32:
            return SINGLES[name](*src)
        return op("mad", *src) if name == "fma" else super()._plain(name, src)


def render(kernel: Kernel, arch: str, features: frozenset[str] = frozenset()) -> str:
    """Equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have; Unsupported for float64 and unknown chips.
    """
    images = Images()
    flush16 = FLUSH16 in features
    text = _render(kernel, arch, images, flush16=flush16)
    if IMAGES in features and images.found:
        text = _render(kernel, arch, Images(images.found), flush16=flush16)
    return text


def _render(kernel: Kernel, arch: str, images: Images, *, flush16: bool) -> str:
    target, expander = qcom_target(arch), Ir3Expander(flush16=flush16)
    registers = target.registers(kernel.block)
    printer = Ir3Printer(kernel, target.generation, registers, images, flush16=flush16)
    return Walker(kernel, printer, expander).run()
