"""Kernels of the Turnip witness: arithmetic, conversions, flow."""

from __future__ import annotations

from tests.turnip.kernel import Kernel, Kernels

_TRANSCENDENTAL = 2e-5
"""Vulkan's own bound of exp2 and log2 at these sizes is looser still."""
_ROUNDED = 1e-6

ARITHMETIC: Kernels = {
    "add": Kernel(body="o[i] = a[i] + b[i];"),
    "chain": Kernel(
        body="o[i] = max((a[i] - b[i]) * 0.5, -a[i]) + min(b[i], 3.0);", close=_ROUNDED,
    ),
    "integers": Kernel(
        a="i32", b="i32", o="i32",
        body="o[i] = (a[i] * b[i] - abs(b[i])) ^ min(a[i], -b[i]) + clamp(a[i], -7, 9);",
    ),
    "divide_unsigned": Kernel(
        a="u32", b="u32", o="u32",
        body="let d = (b[i] >> (b[i] & 31u)) | 1u; o[i] = a[i] / d + 3u * (a[i] % d);",
    ),
    "divide_signed": Kernel(
        a="i32", b="i32", o="i32",
        body="let d = (b[i] >> u32(b[i] & 15)) | 1; o[i] = a[i] / d - 5 * (a[i] % d);",
    ),
    "divide_float": Kernel(body="o[i] = a[i] / b[i] + a[i] % 7.0;", close=_TRANSCENDENTAL),
    "shifts": Kernel(
        a="u32", b="u32", o="u32",
        body="let s = b[i] & 31u; o[i] = (a[i] << s) ^ (b[i] >> s) ^ u32(i32(a[i]) >> s) ^ ~b[i];",
    ),
    "count_bits": Kernel(
        a="u32", b="i32", o="u32",
        body="""let x = a[i] >> (u32(b[i]) & 31u);
o[i] = countOneBits(x) + (reverseBits(a[i]) ^ firstLeadingBit(x)) + firstTrailingBit(x)
    + countLeadingZeros(x) * 3u + countTrailingZeros(x) + u32(firstLeadingBit(b[i]));""",
    ),
    "bit_fields": Kernel(
        a="u32", b="u32", o="u32",
        body="""let at = b[i] & 15u; let c = (b[i] >> 8u) & 15u;
o[i] = extractBits(a[i], at, c) ^ insertBits(a[i], b[i], at, c)
    ^ u32(extractBits(i32(a[i]), at, c));""",
    ),
    "compare": Kernel(
        body="""let x = select(a[i], b[i], a[i] < b[i]);
o[i] = x + select(0.0, 1.0, a[i] >= 0.0 && !(b[i] <= 1.0)) + select(2.0, 4.0, a[i] != b[i]);""",
    ),
    "roots": Kernel(
        ranges=(0.01, 100.0), close=_TRANSCENDENTAL,
        body="o[i] = sqrt(a[i]) + inverseSqrt(b[i]) + 1.0 / a[i];",
    ),
    "exponents": Kernel(
        ranges=(0.1, 12.0), close=_TRANSCENDENTAL,
        body="o[i] = exp2(a[i]) + log2(b[i]) + pow(a[i], 0.5) + exp(b[i] * 0.25);",
    ),
    "angles": Kernel(
        ranges=(-3.0, 3.0), close=1e-4, body="o[i] = 4.0 + sin(a[i]) + cos(b[i]) * 0.5;",
    ),
    "rounding": Kernel(
        body="""o[i] = floor(a[i]) + 10.0 * ceil(b[i]) + trunc(a[i]) * 0.5 + round(b[i])
    + sign(a[i]) + abs(b[i]);""",
    ),
    "fraction": Kernel(body="o[i] = fract(a[i]) + saturate(b[i]);", close=1e-5),
    "convert": Kernel(
        a="f32", b="i32", o="u32",
        body="""o[i] = u32(abs(a[i])) + u32(i32(a[i])) * 256u
    + bitcast<u32>(f32(b[i] >> 8u)) + bitcast<u32>(f32(u32(b[i]) >> 8u));""",
    ),
    "pack_half": Kernel(
        o="u32",
        body="let h = pack2x16float(vec2(floor(a[i]), ceil(b[i]) * 0.25));"
        " let u = unpack2x16float(h ^ 0x8000u);"
        "o[i] = h ^ bitcast<u32>(u.x) ^ (bitcast<u32>(u.y) >> 3u);",
    ),
    "pack_bytes": Kernel(
        a="u32", b="f32", o="u32", ranges=(-0.9, 0.9),
        body="""let v = unpack4xU8(a[i]); let s = unpack4xI8(a[i]);
o[i] = pack4xU8(v.wzyx) ^ u32(s.x + s.y * 3 - s.z + s.w) + dot4U8Packed(a[i], 0x01020304u)
    + u32(dot4I8Packed(a[i], 0x01fe0304u));""",
    ),
    "vectors": Kernel(
        a="vec4<f32>", b="vec4<f32>", o="vec4<f32>", words=1024, close=1e-5,
        body="""let c = cross(a[i].xyz, b[i].xyz);
o[i] = vec4(c * 0.01, dot(a[i], b[i]) * 0.001) + mix(a[i], b[i], vec4(0.25)).wxyz;""",
    ),
    "matrices": Kernel(
        a="mat4x4<f32>", b="mat4x4<f32>", o="mat4x4<f32>", words=4096, close=1e-4,
        ranges=(0.0, 1.0), body="o[i] = a[i] * b[i] * transpose(a[i]);",
    ),
    "wide": Kernel(
        a="vec2<u32>", b="vec2<u32>", o="vec2<u32>", words=512, needs=("shader-int64",),
        body="""let x = (u64(a[i].y) << 32u) | u64(a[i].x);
let y = (u64(b[i].y) << 32u) | u64(b[i].x);
let z = x * y + (x >> 7u) - (y << 3u); o[i] = vec2<u32>(u32(z), u32(z >> 32u));""",
    ),
}  # fmt: skip

FLOW: Kernels = {
    "either": Kernel(
        body="if (a[i] > 0.0) { o[i] = a[i] * 2.0; } else { o[i] = b[i] - 1.0; }",
    ),
    "nested": Kernel(
        a="u32", b="u32", o="u32",
        body="""var r = 0u;
if ((a[i] & 1u) != 0u) { r = 1u;
  if ((a[i] & 2u) != 0u) { r += b[i]; if ((b[i] & 4u) == 0u) { r ^= a[i]; } else { r *= 3u; } }
  else { r += 7u; }
} else if ((b[i] & 8u) != 0u) { r = a[i] + b[i]; }
o[i] = r + 1u;""",
    ),
    "trips": Kernel(
        a="u32", b="u32", o="u32",
        body="var r = b[i]; for (var k = 0u; k < (a[i] & 31u); k++) { r = r * 1664525u + k; }"
        " o[i] = r;",
    ),
    "leave": Kernel(
        a="u32", b="u32", o="u32",
        body="""var x = a[i] | 1u; var r = 0u;
loop { r++; if (r > 40u) { break; } if ((x & 3u) == 1u) { x = x / 2u + b[i] % 5u; continue; }
  x = x * 3u + 1u; if (x > 0xf0000000u) { break; } }
o[i] = x ^ r;""",
    ),
    "switch": Kernel(
        a="u32", b="u32", o="u32",
        body="""var r = b[i];
switch (a[i] % 6u) { case 0u: { r += 1u; } case 1u, 3u: { r *= 5u; }
  case 4u: { r = r >> 3u; } default: { r = ~r; } }
o[i] = r;""",
    ),
    "return": Kernel(
        a="u32", b="u32", o="u32", body="o[i] = 5u; if (a[i] % 3u == 0u) { return; } o[i] = b[i];",
    ),
    "call": Kernel(
        a="u32", b="u32", o="u32",
        head="fn gcd(x: u32, y: u32) -> u32 { var p = x; var q = y;"
        " while (q != 0u) { let t = p % q; p = q; q = t; } return p; }",
        body="o[i] = gcd(a[i] & 0xffffu, b[i] & 0xffffu);",
    ),
    "private_array": Kernel(
        a="u32", b="u32", o="u32",
        body="""var s: array<u32, 32>;
for (var k = 0u; k < 32u; k++) { s[(k * 7u + a[i]) & 31u] = b[i] + k * k; }
o[i] = s[a[i] & 31u] ^ s[(b[i] >> 5u) & 31u];""",
    ),
    "constant_array": Kernel(
        a="u32", b="u32", o="u32",
        head="const T = array<u32, 8>(3u, 1u, 4u, 1u, 5u, 9u, 2u, 6u);",
        body="var t = T; o[i] = t[a[i] & 7u] * 100u + t[b[i] & 7u];",
    ),
}  # fmt: skip
