"""The random C of c_kernel_maker as CUDA C: the same text, other macros, and integers that wrap.

nvrtc has no -fwrapv: classes compute where C would leave an overflow of int undefined.
"""

from __future__ import annotations

import re

from tests.boards.c_kernel_maker import unit

_CUDA = """#define MEM
#define ENTRY extern "C" __global__ void
#define BEGIN int id = blockIdx.x * 32 + threadIdx.x; {
#define END }
#define F __device__ __forceinline__
template <class S, class U> struct Wrap {
  S v;
  F Wrap() = default;
  template <class T> F Wrap(T x) : v((S)x) {}
  F operator S() const { return v; }
  F Wrap operator+(Wrap o) const { return (S)((U)v + (U)o.v); }
  F Wrap operator-(Wrap o) const { return (S)((U)v - (U)o.v); }
  F Wrap operator*(Wrap o) const { return (S)((U)v * (U)o.v); }
  F Wrap operator/(Wrap o) const { return (S)(v / o.v); }
  F Wrap operator%(Wrap o) const { return (S)(v % o.v); }
  F Wrap operator-() const { return (S)(0 - (U)v); }
  F Wrap operator++(int) { Wrap old = *this; v = (S)((U)v + 1); return old; }
  F Wrap &operator+=(Wrap o) { return *this = *this + o; }
  F Wrap &operator-=(Wrap o) { return *this = *this - o; }
  F Wrap &operator*=(Wrap o) { return *this = *this * o; }
  F Wrap &operator^=(Wrap o) { v ^= o.v; return *this; }
};
typedef signed char i8; typedef unsigned long long u64;
typedef unsigned char u8; typedef short i16; typedef Wrap<unsigned short, unsigned> u16;
typedef Wrap<int, unsigned> i32; typedef Wrap<long long, unsigned long long> i64;
typedef unsigned u32; typedef float f32; typedef double f64;
static F i64 to_int(f64 x) { return x > -1e9 && x < 1e9 ? (i64)x : (i64)77; }
static F i64 divide(i64 a, i64 b) { return b.v == 0 || b.v == -1 ? a : a / b; }
static F i64 rest(i64 a, i64 b) { return b.v == 0 || b.v == -1 ? b : a % b; }
static F u64 divide_u(u64 a, u64 b) { return b == 0 ? a : a / b; }
static F i32 divide_w(i32 a, i32 b) { return b.v == 0 || b.v == -1 ? a : a / b; }
static F u32 rest_w(u32 a, u32 b) { return b == 0 ? a : a % b; }
"""
_HEAD = re.compile(r"#ifdef GPU.*?static u32 rest_w[^\n]*\n", re.DOTALL)


def cuda_unit(seeds: range) -> str:
    """A source for nvrtc with a kernel k<seed> for each seed."""
    text, heads = _HEAD.subn("", unit(seeds))
    if heads != 1:
        raise AssertionError("the head of c_kernel_maker is another")
    return _CUDA + text.replace("__builtin_", "")
