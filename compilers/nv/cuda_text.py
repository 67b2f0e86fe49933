"""CUDA C++ without headers: the types, vectors and helpers that every kernel begins with.

nvrtc's compiler has no vectors with operators, so that they are a template here. What only PTX can
say is in functions of one line each, so that another compiler can be given others.
"""

from __future__ import annotations

from typing import Final

SCALARS: Final = {
    "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long", "u8": "unsigned char",
    "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long", "f32": "float",
    "f64": "double",
}  # fmt: skip
INLINE: Final = "static __device__ __forceinline__"
EVERY: Final = '_Pragma("unroll") for (int i = 0; i < N; i++)'
# src: PTX ISA, "cvt": f16 from f32 rounded to the nearest even number, and back exactly
HALF: Final = f"""\
{INLINE} void narrow(u16 &r, f32 x) {{ asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); }}
{INLINE} void widen(f32 &r, u16 x) {{ asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); }}
struct f16 {{
  u16 word;
  f16() = default;
  __device__ __forceinline__ explicit f16(f32 x) {{ narrow(word, x); }}
  __device__ __forceinline__ explicit operator f32() const {{
    f32 r;
    widen(r, word);
    return r;
  }}
}};"""
"""A float16 between two conversions."""
VECTORS: Final = f"""\
template <class T, int N> struct Vec {{ T e[N]; }};
template <class To, class From> {INLINE} To bits(From x) {{
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  return __builtin_bit_cast(To, x);
}}
template <class V, class T, int N, class A> {INLINE} V filled(Vec<T, N> r, A x) {{
  {EVERY} r.e[i] = (T)x;
  return r;
}}
template <class V, class A> {INLINE} V make(A x) {{ return filled<V>(V{{}}, x); }}
template <class V, class A, class B, class... C> {INLINE} V make(A a, B b, C... c) {{
  return V{{{{a, b, c...}}}};
}}
template <class V, class T, class F, int N> {INLINE} V converted(Vec<T, N> r, Vec<F, N> x) {{
  {EVERY} r.e[i] = (T)x.e[i];
  return r;
}}
template <class V, class F, int N> {INLINE} V to(Vec<F, N> x) {{ return converted<V>(V{{}}, x); }}
template <class T, int N> {INLINE} Vec<T, N> operator-(Vec<T, N> x) {{
  {EVERY} x.e[i] = -x.e[i];
  return x;
}}
template <class T, int N> {INLINE} Vec<T, N> select(Vec<T, N> b, Vec<T, N> a, Vec<bool, N> mask) {{
  {EVERY} b.e[i] = mask.e[i] ? a.e[i] : b.e[i];
  return b;
}}"""
_OPERATOR: Final = f"""\
template <class T, int N> {INLINE} Vec<{{result}}, N> operator{{op}}(Vec<T, N> a, Vec<T, N> b) {{{{
  Vec<{{result}}, N> r;
  {EVERY} r.e[i] = ({{result}})(a.e[i] {{op}} b.e[i]);
  return r;
}}}}"""
_ONE: Final = f"""\
{INLINE} f32 of_{{name}}(f32 x) {{{{ return {{single}}(x); }}}}
{INLINE} f64 of_{{name}}(f64 x) {{{{ return {{double}}(x); }}}}
template <class T, int N> {INLINE} Vec<T, N> of_{{name}}(Vec<T, N> x) {{{{
  {EVERY} x.e[i] = of_{{name}}(x.e[i]);
  return x;
}}}}"""
_MORE: Final = f"""\
{INLINE} f32 of_copysign(f32 a, f32 b) {{ return copysignf(a, b); }}
{INLINE} f64 of_copysign(f64 a, f64 b) {{ return copysign(a, b); }}
template <class T, int N> {INLINE} Vec<T, N> of_copysign(Vec<T, N> a, Vec<T, N> b) {{
  {EVERY} a.e[i] = of_copysign(a.e[i], b.e[i]);
  return a;
}}
{INLINE} f32 of_fma(f32 a, f32 b, f32 c) {{ return __fmaf_rn(a, b, c); }}
{INLINE} f64 of_fma(f64 a, f64 b, f64 c) {{ return __fma_rn(a, b, c); }}
template <class T, int N> {INLINE} Vec<T, N> of_fma(Vec<T, N> a, Vec<T, N> b, Vec<T, N> c) {{
  {EVERY} a.e[i] = of_fma(a.e[i], b.e[i], c.e[i]);
  return a;
}}"""
MEMORY: Final = f"""\
template <int A> struct Piece;
template <> struct Piece<1> {{ typedef u8 type; }};
template <> struct Piece<2> {{ typedef u16 type; }};
template <> struct Piece<4> {{ typedef u32 type; }};
template <> struct Piece<8> {{ typedef uint2 type; }};
template <> struct Piece<16> {{ typedef uint4 type; }};
template <class V, int A> struct Pieces {{ typename Piece<A>::type e[sizeof(V) / A]; }};
template <class V, int A> {INLINE} V loaded(const void *place) {{
  Pieces<V, A> r;
  _Pragma("unroll") for (int i = 0; i < (int)(sizeof(V) / A); i++)
    r.e[i] = ((const typename Piece<A>::type *)place)[i];
  return bits<V>(r);
}}
template <int A, class V> {INLINE} void stored(void *place, V x) {{
  Pieces<V, A> r = bits<Pieces<V, A>>(x);
  _Pragma("unroll") for (int i = 0; i < (int)(sizeof(V) / A); i++)
    ((typename Piece<A>::type *)place)[i] = r.e[i];
}}"""
"""Loads and stores of so many bytes at once as their place is aligned to."""
_ARITHMETIC: Final = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")
_COMPARISONS: Final = ("<", "<=", "==", "!=")
# src: CUDA C++ Programming Guide, "Intrinsic Functions": __fsqrt_rn rounds to the nearest
_FUNCTIONS: Final = {
    "fabs": ("fabsf", "fabs"), "sqrt": ("__fsqrt_rn", "__dsqrt_rn"),
    "floor": ("floorf", "floor"), "ceil": ("ceilf", "ceil"), "trunc": ("truncf", "trunc"),
    "rint": ("rintf", "rint"),
}  # fmt: skip


def preamble() -> list[str]:
    """What comes before a kernel, types of scalars excepted."""
    lines = [HALF, VECTORS]
    lines += [_OPERATOR.format(op=op, result="T") for op in _ARITHMETIC]
    lines += [_OPERATOR.format(op=op, result="bool") for op in _COMPARISONS]
    for name, (single, double) in _FUNCTIONS.items():
        lines.append(_ONE.format(name=name, single=single, double=double))
    return [*lines, _MORE, MEMORY]
