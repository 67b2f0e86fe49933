"""Elementwise kernels as LLVM IR, each with what numpy says it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.boards.wave_harness import kernel

DTYPES: dict[str, Any] = {
    "float": np.float32, "double": np.float64, "half": np.float16, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64,
}  # fmt: skip
IDS = """declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
"""
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}
GROUP = 64


@dataclass(frozen=True)
class Case:
    """`body` computes %r from %x, %y, %z; `expected` does so in numpy; `ulps` may differ."""

    name: str
    types: tuple[str, ...]
    result: str
    body: str
    expected: Callable[..., Any]
    declares: str = ""
    ulps: int = 0
    data: str = "any"


def module(case: Case) -> str:
    names = "xyz"[: len(case.types)]
    lines = [
        "  %t = call i32 @llvm.amdgcn.workitem.id.x()",
        "  %g = call i32 @llvm.amdgcn.workgroup.id.x()",
        f"  %b = mul i32 %g, {GROUP}",
        "  %i = add i32 %b, %t",
    ]
    for name, kind in zip(names, case.types, strict=True):
        lines.append(f"  %p{name} = getelementptr {kind}, ptr addrspace(1) %a{name}, i32 %i")
        lines.append(f"  %{name} = load {kind}, ptr addrspace(1) %p{name}")
    lines.append(case.body)
    lines.append(f"  %po = getelementptr {case.result}, ptr addrspace(1) %out, i32 %i")
    lines.append(f"  store {case.result} %r, ptr addrspace(1) %po\n  ret void")
    params = [f"ptr addrspace(1) noalias %a{name}" for name in names]
    return kernel(
        "\n".join(lines),
        ", ".join([*params, "ptr addrspace(1) noalias %out"]),
        top=IDS + case.declares,
    )


def _call(function: str, kind: str, count: int) -> tuple[str, str]:
    arguments = ", ".join(f"{kind} %{n}" for n in "xyz"[:count])
    types = ", ".join([kind] * count)
    return (
        f"  %r = call {kind} @{function}({arguments})",
        f"declare {kind} @{function}({types})\n",
    )


def _floats() -> list[Case]:
    cases = []
    for kind, suffix in _SUFFIX.items():
        two, wide = (kind, kind), np.float64
        for op, function in (("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply)):
            cases.append(Case(f"{op}_{suffix}", two, kind, f"  %r = {op} {kind} %x, %y", function))
        cases.append(Case(f"fdiv_{suffix}", two, kind, f"  %r = fdiv {kind} %x, %y", np.divide))
        unary = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
                 "fabs": np.abs, "sqrt": np.sqrt}  # fmt: skip
        for name, function in unary.items():
            body, declares = _call(f"llvm.{name}.{suffix}", kind, 1)
            cases.append(Case(f"{name}_{suffix}", (kind,), kind, body, function, declares))
        for name, function in (("minnum", np.fmin), ("maxnum", np.fmax)):
            body, declares = _call(f"llvm.{name}.{suffix}", kind, 2)
            cases.append(Case(f"{name}_{suffix}", two, kind, body, function, declares, 0, "plain"))
        body, declares = _call(f"llvm.copysign.{suffix}", kind, 2)
        cases.append(Case(f"copysign_{suffix}", two, kind, body, np.copysign, declares))
        for condition, compare in (
            ("olt", np.less),
            ("oge", np.greater_equal),
            ("une", np.not_equal),
        ):
            body = (
                f"  %m = fcmp {condition} {kind} %x, %y\n  %r = select i1 %m, {kind} %x, {kind} 7.0"
            )
            expected = _select(compare)
            cases.append(Case(f"fcmp_{condition}_{suffix}", two, kind, body, expected))
        if kind != "double":
            body, declares = _call(f"llvm.fma.{suffix}", kind, 3)
            exact = _narrowed(lambda a, b, c: a * b + c, wide)
            cases.append(
                Case(f"fma_{suffix}", (kind,) * 3, kind, body, exact, declares, 0, "short")
            )
    for name, function, data in (
        ("exp2", np.exp2, "small"), ("log2", np.log2, "positive"), ("exp", np.exp, "small"),
        ("log", np.log, "positive"), ("sin", np.sin, "angle"), ("cos", np.cos, "angle"),
    ):  # fmt: skip
        for kind in ("float", "half"):
            body, declares = _call(f"llvm.{name}.{_SUFFIX[kind]}", kind, 1)
            expected = _narrowed(function, np.float64)
            case = f"{name}_{_SUFFIX[kind]}"
            cases.append(Case(case, (kind,), kind, body, expected, declares, 4, data))
    return cases


def _narrowed(function: Callable[..., Any], wide: Any) -> Callable[..., Any]:
    return lambda *args: function(*[a.astype(wide) for a in args]).astype(args[0].dtype)


def _select(compare: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: np.where(compare(a, b), a, a.dtype.type(7))


def _integers() -> list[Case]:
    cases = []
    for bits in (8, 16, 32, 64):
        kind = f"i{bits}"
        two = (kind, kind)
        simple = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
                  "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
        for op, function in simple.items():
            cases.append(Case(f"{op}_{kind}", two, kind, f"  %r = {op} {kind} %x, %y", function))
        mask = f"  %s = and {kind} %y, {bits - 1}\n"
        for op, function in (("shl", _shl), ("lshr", _lshr), ("ashr", _ashr)):
            body = mask + f"  %r = {op} {kind} %x, %s"
            cases.append(Case(f"{op}_{kind}", two, kind, body, function(bits)))
        for op in ("sdiv", "srem", "udiv", "urem"):
            body = f"  %s = or {kind} %y, 1\n  %r = {op} {kind} %x, %s"
            cases.append(Case(f"{op}_{kind}", two, kind, body, _divide(op)))
        for name, function in (("smin", np.minimum), ("smax", np.maximum)):
            body, declares = _call(f"llvm.{name}.{kind}", kind, 2)
            cases.append(Case(f"{name}_{kind}", two, kind, body, function, declares))
        body, declares = _call(f"llvm.umax.{kind}", kind, 2)
        cases.append(Case(f"umax_{kind}", two, kind, body, _unsigned(np.maximum), declares))
        for name, function in (("ctpop", _popcount), ("bitreverse", _reverse)):
            body, declares = _call(f"llvm.{name}.{kind}", kind, 1)
            cases.append(Case(f"{name}_{kind}", (kind,), kind, body, function, declares))
        for name, function in (("ctlz", _leading), ("cttz", _trailing)):
            body = f"  %r = call {kind} @llvm.{name}.{kind}({kind} %x, i1 false)"
            declares = f"declare {kind} @llvm.{name}.{kind}({kind}, i1)\n"
            cases.append(Case(f"{name}_{kind}", (kind,), kind, body, function, declares))
        for name, function in (("sadd", _sadd), ("uadd", _uadd), ("ssub", _ssub)):
            body, declares = _call(f"llvm.{name}.sat.{kind}", kind, 2)
            cases.append(Case(f"{name}_sat_{kind}", two, kind, body, function, declares))
        if bits >= 16:
            body, declares = _call(f"llvm.bswap.{kind}", kind, 1)
            cases.append(
                Case(f"bswap_{kind}", (kind,), kind, body, lambda a: a.byteswap(), declares)
            )
        for condition, compare in (("slt", np.less), ("eq", np.equal)):
            body = (
                f"  %m = icmp {condition} {kind} %x, %y\n  %r = select i1 %m, {kind} %x, {kind} 7"
            )
            cases.append(Case(f"icmp_{condition}_{kind}", two, kind, body, _select(compare)))
    body, declares = _call("llvm.fshl.i32", "i32", 3)
    cases.append(Case("fshl_i32", ("i32",) * 3, "i32", body, _funnel, declares))
    high = """  %wx = sext i32 %x to i64\n  %wy = sext i32 %y to i64\n  %w = mul i64 %wx, %wy
  %s = lshr i64 %w, 32\n  %r = trunc i64 %s to i32"""
    cases.append(Case("mulhi_i32", ("i32", "i32"), "i32", high,
                      lambda a, b: (a.astype(np.int64) * b >> 32).astype(np.int32)))  # fmt: skip
    return cases


def _u(a: Any) -> Any:
    return a.view(f"u{a.itemsize}")


def _unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: function(_u(a), _u(b)).view(a.dtype)


def _shl(bits: int) -> Callable[..., Any]:
    return lambda a, b: a << (b & a.dtype.type(bits - 1))


def _lshr(bits: int) -> Callable[..., Any]:
    return lambda a, b: (_u(a) >> _u(b & a.dtype.type(bits - 1))).view(a.dtype)


def _ashr(bits: int) -> Callable[..., Any]:
    return lambda a, b: a >> (b & a.dtype.type(bits - 1))


def _divide(op: str) -> Callable[..., Any]:
    def signed(x: int, y: int) -> int:
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return quotient if "div" in op else x - quotient * y

    def apply(a: Any, b: Any) -> Any:
        d = b | a.dtype.type(1)
        if op[0] == "u":
            x, y = _u(a), _u(d)
            return (x // y if op == "udiv" else x % y).view(a.dtype)
        pairs = zip(a.tolist(), d.tolist(), strict=True)
        bits = 8 * a.itemsize
        values = [signed(x, y) & (1 << bits) - 1 for x, y in pairs]
        return np.array(values, f"u{a.itemsize}").view(a.dtype)

    return apply


def _popcount(a: Any) -> Any:
    return np.array([bin(v).count("1") for v in _u(a).tolist()], a.dtype)


def _reverse(a: Any) -> Any:
    bits = 8 * a.itemsize
    values = [int(f"{v:0{bits}b}"[::-1], 2) for v in _u(a).tolist()]
    return np.array(values, f"u{a.itemsize}").view(a.dtype)


def _leading(a: Any) -> Any:
    bits = 8 * a.itemsize
    return np.array([bits - v.bit_length() for v in _u(a).tolist()], a.dtype)


def _trailing(a: Any) -> Any:
    bits = 8 * a.itemsize
    values = [(v & -v).bit_length() - 1 if v else bits for v in _u(a).tolist()]
    return np.array(values, a.dtype)


def _saturate(values: list[int], dtype: Any, low: int, high: int) -> Any:
    bits = 8 * np.dtype(dtype).itemsize
    limited = [min(max(v, low), high) & (1 << bits) - 1 for v in values]
    return np.array(limited, f"u{bits // 8}").view(dtype)


def _sadd(a: Any, b: Any) -> Any:
    info = np.iinfo(a.dtype)
    sums = [x + y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return _saturate(sums, a.dtype, info.min, info.max)


def _ssub(a: Any, b: Any) -> Any:
    info = np.iinfo(a.dtype)
    sums = [x - y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return _saturate(sums, a.dtype, info.min, info.max)


def _uadd(a: Any, b: Any) -> Any:
    sums = [x + y for x, y in zip(_u(a).tolist(), _u(b).tolist(), strict=True)]
    return _saturate(sums, a.dtype, 0, (1 << 8 * a.itemsize) - 1)


def _funnel(a: Any, b: Any, c: Any) -> Any:
    rows = zip(_u(a).tolist(), _u(b).tolist(), _u(c).tolist(), strict=True)
    values = [((x << 32 | y) << (n & 31) >> 32) & 0xFFFFFFFF for x, y, n in rows]
    return np.array(values, np.uint32).view(np.int32)


def _conversions() -> list[Case]:
    cases = []
    floats = ("half", "float", "double")
    for source in floats:
        for target in floats:
            if source != target:
                op = "fpext" if floats.index(target) > floats.index(source) else "fptrunc"
                body = f"  %r = {op} {source} %x to {target}"
                name = f"{op}_{source}_{target}"
                cases.append(Case(name, (source,), target, body, _cast(target), "",
                                  1 if name == "fptrunc_double_half" else 0))  # fmt: skip
        for target in ("i16", "i32", "i64"):
            body = f"  %r = fptosi {source} %x to {target}"
            case = f"fptosi_{source}_{target}"
            cases.append(Case(case, (source,), target, body, _cast(target), "", 0, "small"))
            body = f"  %r = sitofp {target} %x to {source}"
            case = f"sitofp_{target}_{source}"
            expected = _cast(source)
            cases.append(Case(case, (target,), source, body, expected))
            body = f"  %r = uitofp {target} %x to {source}"
            cases.append(
                Case(f"uitofp_{target}_{source}", (target,), source, body, _from_u(source))
            )
    return cases


def _cast(target: str) -> Callable[..., Any]:
    return lambda a: a.astype(DTYPES[target])


def _from_u(target: str) -> Callable[..., Any]:
    return lambda a: _u(a).astype(DTYPES[target])


def _packed() -> list[Case]:
    cases = []
    v = "<2 x half>"
    cast = "  %vx = bitcast i32 %x to {v}\n  %vy = bitcast i32 %y to {v}\n"
    for op, function in (("fadd", np.add), ("fmul", np.multiply)):
        body = cast.format(v=v) + f"  %s = {op} {v} %vx, %vy\n  %r = bitcast {v} %s to i32"
        cases.append(
            Case(f"pk_{op}_f16", ("i32", "i32"), "i32", body, _halves(function), "", 0, "half2")
        )
    v = "<2 x i16>"
    for op, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
        body = cast.format(v=v) + f"  %s = {op} {v} %vx, %vy\n  %r = bitcast {v} %s to i32"
        cases.append(Case(f"pk_{op}_i16", ("i32", "i32"), "i32", body, _shorts(function)))
    return cases


def _halves(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: function(a.view(np.float16), b.view(np.float16)).view(np.int32)


def _shorts(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: function(a.view(np.int16), b.view(np.int16)).view(np.int32)


CASES = [*_floats(), *_integers(), *_conversions(), *_packed()]


def operands(case: Case, count: int, seed: int) -> list[np.ndarray]:
    """Random operands: bit patterns of every kind, or a range that the case asks for."""
    rng = np.random.default_rng(seed)
    found = []
    for kind in case.types:
        dtype = np.dtype(DTYPES[kind])
        bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).copy()
        if case.data == "half2":
            values = rng.standard_normal(2 * count).astype(np.float16).view(np.int32)
        elif dtype.kind != "f" or case.data == "any":
            values = bits
            if dtype.kind == "f":
                values[::3] = rng.standard_normal(len(values[::3])).astype(dtype)
                special = np.array([0.0, -0.0, np.inf, -np.inf, 1.0, np.finfo(dtype).tiny], dtype)
                values[1::31] = rng.choice(special, len(values[1::31]))
        elif case.data == "short":
            scale = np.ldexp(1.0, rng.integers(-6, 6, count))
            values = (rng.integers(-40, 40, count) * scale).astype(dtype)
        elif case.data == "positive":
            values = np.exp(rng.uniform(-5, 5, count)).astype(dtype)
        elif case.data == "angle":
            values = rng.uniform(-3, 3, count).astype(dtype)
        else:
            values = rng.uniform(-9, 9, count).astype(dtype)
        found.append(values)
    return found
