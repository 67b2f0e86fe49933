"""Products of matrices in registers: mma and ldmatrix of PTX, one warp each.

Element (row, column) of lane and register as PTX ISA has it: "Matrix Fragments for mma".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.boards.nv_corpus.kernel import Kernel, ints, zeros

_TEXT = """F({result} *o, const u32 *a, const u32 *b, const {result} *c) {{ T;
  {kind} d[{nd}]; u32 x[{na}], y[{nb}];
  UNROLL for (int k = 0; k < {na}; k++) x[k] = a[t * {na} + k];
  UNROLL for (int k = 0; k < {nb}; k++) y[k] = b[t * {nb} + k];
  UNROLL for (int k = 0; k < {nd}; k++) d[k] = (({kind} *)c)[t * {nd} + k];
  LOOP for (int r = 0; r < 3; r++) asm volatile("{op} {{{ds}}}, {{{xs}}}, {{{ys}}}, {{{ds}}};"
    : {outs} : {ins});
  UNROLL for (int k = 0; k < {nd}; k++) (({kind} *)o)[t * {nd} + k] = d[k]; }}"""


def _source(op: str, kind: str, na: int, nb: int, nd: int) -> str:
    letter = {"float": "f", "u32": "r", "int": "r", "double": "d"}[kind]
    names = [f"%{n}" for n in range(nd + na + nb)]
    outs = ", ".join(f'"+{letter}"(d[{k}])' for k in range(nd))
    ins = [f'"r"(x[{k}])' for k in range(na)] + [f'"r"(y[{k}])' for k in range(nb)]
    return _TEXT.format(
        result=kind, kind=kind, na=na, nb=nb, nd=nd, op=op, outs=outs, ins=", ".join(ins),
        ds=", ".join(names[:nd]), xs=", ".join(names[nd : nd + na]),
        ys=", ".join(names[nd + na :]),
    )  # fmt: skip


def _a_places(k: int, per: int) -> tuple[Any, Any]:
    """Rows and columns of A, 16 x k: (lane, register, element of it)."""
    lane, group = np.arange(32)[:, None, None] % 4, np.arange(32)[:, None, None] // 4
    count = 16 * k // 32 // per
    reg, part = np.arange(count)[None, :, None], np.arange(per)[None, None, :]
    row = group + 8 * (reg % 2) + 0 * part
    return row, lane * per + part + 4 * per * (reg // 2)


def _b_places(k: int, per: int) -> tuple[Any, Any]:
    """Rows and columns of B, k x 8."""
    lane, group = np.arange(32)[:, None, None] % 4, np.arange(32)[:, None, None] // 4
    count = 8 * k // 32 // per
    reg, part = np.arange(count)[None, :, None], np.arange(per)[None, None, :]
    return lane * per + part + 4 * per * reg, group + 0 * (reg + part)


def _c_places() -> tuple[Any, Any]:
    """Rows and columns of C, 16 x 8: (lane, element)."""
    lane, group = np.arange(32)[:, None] % 4, np.arange(32)[:, None] // 4
    each = np.arange(4)[None, :]
    return group + 8 * (each // 2), lane * 2 + each % 2


def _product(k: int, per: int, read: Any, *, after: Any = lambda x: x) -> Any:
    """Three products added one after the other."""

    def expected(o: Any, a: Any, b: Any, c: Any) -> Any:
        x, y, z = np.zeros((16, k)), np.zeros((k, 8)), np.zeros((16, 8))
        x[_a_places(k, per)] = read(a).reshape(32, -1, per)
        y[_b_places(k, per)] = read(b).reshape(32, -1, per)
        z[_c_places()] = c.reshape(32, 4)
        for _ in range(3):
            z = after(x @ y + z)
        return z[_c_places()].ravel()

    return expected


def _half(words: Any) -> Any:
    return words.view(np.float16).astype("f8")


def _brain(words: Any) -> Any:
    return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype("f8")


def _tf32(words: Any) -> Any:
    return (words & np.uint32(0xFFFFE000)).view(np.float32).astype("f8")


def _nibbles(words: Any) -> Any:
    parts = np.stack([words >> np.uint32(4 * n) & np.uint32(15) for n in range(8)], 1).astype("i8")
    return np.where(parts > 7, parts - 16, parts).astype("f8")


def _h(name: str, count: int) -> Any:
    return (ints(name, 2 * count, -8, 9, np.int32) / 4).astype(np.float16).view(np.uint32)


def _b16(name: str, count: int) -> Any:
    values = (ints(name, 2 * count, -8, 9, np.int32) / 4).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)


def _c(name: str, dtype: Any = np.float32) -> Any:
    return ints(name, 128, -50, 50, np.int32).astype(dtype)


def _halves_summed(o: Any, a: Any, b: Any, c: Any) -> Any:
    of = _product(16, 2, _half, after=lambda x: x.astype(np.float16).astype("f8"))
    return of(o, a, b, c.view(np.float16).astype("f8")).astype(np.float16).view(np.uint32)


def _bits(words: Any) -> Any:
    return np.unpackbits(words.view(np.uint8), bitorder="little").reshape(len(words), 32)


def _binary(o: Any, a: Any, b: Any, c: Any) -> Any:
    """xor and count of rows of 256 bits, three times added."""
    x, y, z = np.zeros((16, 256), int), np.zeros((256, 8), int), np.zeros((16, 8), int)
    x[_a_places(256, 32)] = _bits(a).reshape(32, -1, 32)
    y[_b_places(256, 32)] = _bits(b).reshape(32, -1, 32)
    z[_c_places()] = c.reshape(32, 4)
    found = (x[:, :, None] ^ y[None]).sum(1) * 3 + z
    return found[_c_places()].ravel()


def _doubles(o: Any, a: Any, b: Any, c: Any) -> Any:
    x, y = a.reshape(8, 4), b.reshape(8, 4).T
    return (x @ y * 2 + c.reshape(8, 8)).ravel()


def _fp8(words: Any) -> Any:
    """Of e4m3. src: OCP 8-bit floating point specification, table 1"""
    byte = words.view(np.uint8).astype(int)
    exponent, low = byte >> 3 & 15, byte & 7
    value = np.where(exponent > 0, (1 + low / 8) * 2.0 ** (exponent - 7), low * 2.0**-9)
    return np.where(byte >> 7, -value, value)


def _turned(o: Any, p: Any, a: Any) -> Any:
    """ldmatrix: a lane gets two halves of a row, of each of four matrices; .trans turns them."""
    m = a.view(np.uint16).reshape(4, 8, 8)
    plain = m.reshape(4, 32, 2).transpose(1, 0, 2)
    turned = m.transpose(0, 2, 1).reshape(4, 32, 2).transpose(1, 0, 2)
    return tuple(np.ascontiguousarray(x).view(np.uint32).ravel() for x in (plain, turned))


_MMA = "mma.sync.aligned."
KERNELS = (
    Kernel("mma 16816 of halves", _source(_MMA + "m16n8k16.row.col.f32.f16.f16.f32", "float", 4, 2,
                                          4),
           (zeros(128, np.float32), _h("ha", 128), _h("hb", 64), _c("hc")),
           _product(16, 2, _half), block=32, least=80),
    Kernel("mma 1688 of halves", _source(_MMA + "m16n8k8.row.col.f32.f16.f16.f32", "float", 2, 1,
                                         4),
           (zeros(128, np.float32), _h("8a", 64), _h("8b", 32), _c("8c")), _product(8, 2, _half),
           block=32),
    Kernel("mma 16816 summed in halves", _source(_MMA + "m16n8k16.row.col.f16.f16.f16.f16", "u32",
                                                 4, 2, 2),
           (zeros(64), _h("fa", 128), _h("fb", 64), _h("fc", 64)), _halves_summed, block=32,
           least=80),
    Kernel("mma 16816 of bfloat16", _source(_MMA + "m16n8k16.row.col.f32.bf16.bf16.f32", "float",
                                            4, 2, 4),
           (zeros(128, np.float32), _b16("ba", 128), _b16("bb", 64), _c("bc")),
           _product(16, 2, _brain), block=32, least=80),
    Kernel("mma 1688 of bfloat16", _source(_MMA + "m16n8k8.row.col.f32.bf16.bf16.f32", "float", 2,
                                           1, 4),
           (zeros(128, np.float32), _b16("b8a", 64), _b16("b8b", 32), _c("b8c")),
           _product(8, 2, _brain), block=32, least=80),
    Kernel("mma 1684 of TF32", _source(_MMA + "m16n8k4.row.col.f32.tf32.tf32.f32", "float", 2, 1,
                                       4),
           (zeros(128, np.float32), _c("t4a")[:64].view("u4"), _c("t4b")[:32].view("u4"),
            _c("t4c")), _product(4, 1, _tf32), block=32, least=80),
    Kernel("mma 1688 of TF32", _source(_MMA + "m16n8k8.row.col.f32.tf32.tf32.f32", "float", 4, 2,
                                       4),
           (zeros(128, np.float32), _c("t8a").view("u4"), _c("t8b")[:64].view("u4"), _c("t8c")),
           _product(8, 1, _tf32), block=32, least=80),
    Kernel("mma 16816 of bytes", _source(_MMA + "m16n8k16.row.col.s32.s8.s8.s32", "int", 2, 1, 4),
           (zeros(128, np.int32), ints("i1a", 64), ints("i1b", 32), _c("i1c", np.int32)),
           _product(16, 4, lambda w: w.view(np.int8).astype("f8")), block=32, least=80),
    Kernel("mma 16832 of bytes", _source(_MMA + "m16n8k32.row.col.s32.u8.s8.s32", "int", 4, 2, 4),
           (zeros(128, np.int32), ints("i2a", 128) & 0x7F7F7F7F, ints("i2b", 64),
            _c("i2c", np.int32)),
           _product(32, 4, lambda w: w.view(np.int8).astype("f8")), block=32, least=80),
    Kernel("mma 16864 of four bits", _source(_MMA + "m16n8k64.row.col.s32.s4.s4.s32", "int", 4, 2,
                                             4),
           (zeros(128, np.int32), ints("i4a", 128), ints("i4b", 64), _c("i4c", np.int32)),
           _product(64, 8, _nibbles), block=32, least=80, only=(80, 86, 89)),
    Kernel("mma 168256 of bits", _source(_MMA + "m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "int",
                                         4, 2, 4),
           (zeros(128, np.int32), ints("1a", 128), ints("1b", 64), _c("1c", np.int32)), _binary,
           block=32, least=80, only=(80, 86, 89)),
    Kernel("mma 884 of doubles", """F(double *o, const double *a, const double *b,
  const double *c) {
  T; double x = c[2 * t], y = c[2 * t + 1]; for (int r = 0; r < 2; r++) asm volatile(
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
    : "+d"(x), "+d"(y) : "d"(a[t]), "d"(b[t])); o[2 * t] = x; o[2 * t + 1] = y; }""",
           (zeros(64, np.float64), _c("da", "f8")[:32], _c("db", "f8")[:32], _c("dc", "f8")[:64]),
           _doubles, block=32, least=80),
    Kernel("mma 16832 of eight bits", _source(_MMA + "m16n8k32.row.col.f32.e4m3.e4m3.f32", "float",
                                              4, 2, 4),
           (zeros(128, np.float32), ints("e4a", 128) & 0xB8B8B8B8, ints("e4b", 64) & 0xB8B8B8B8,
            _c("e4c")), _product(32, 4, _fp8), block=32, least=89),
    Kernel("ldmatrix and its turn", """F(u32 *o, u32 *p, const u32 *a) { __shared__ u32 s[128]; T;
  for (int k = 0; k < 4; k++) s[k * 32 + t] = a[k * 32 + t]; __syncwarp(); u32 r[4], q[4];
  u32 at = SHARED(s + t * 4);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3]) : "r"(at) : "memory");
  for (int k = 0; k < 4; k++) { o[t * 4 + k] = r[k]; p[t * 4 + k] = q[k]; } }""",
           (zeros(128), zeros(128), ints("ldm", 128)), _turned, block=32),
)  # fmt: skip
