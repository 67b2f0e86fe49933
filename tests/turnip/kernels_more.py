"""Kernels of the Turnip witness: small algorithms, long dependences, many values, odd shapes."""

from __future__ import annotations

from typing import Any

from tests.turnip.kernel import Kernel, Kernels


def _whole(body: str, head: str = "", **other: Any) -> Kernel:
    """Of 32-bit integers: the same bits."""
    made: dict[str, Any] = {"a": "u32", "b": "u32", "o": "u32", **other}
    return Kernel(body=body, head=head, **made)


_S64 = "var<workgroup> s: array<u32, 64>;"
_S256 = "var<workgroup> s: array<u32, 256>;"
_PAIR = """fn mul64(x: u32, y: u32) -> vec2<u32> {
  let a = x & 0xffffu; let b = x >> 16u; let c = y & 0xffffu; let d = y >> 16u;
  let p = a * c; let q = b * c + (p >> 16u); let r = a * d + (q & 0xffffu);
  return vec2(p & 0xffffu | (r << 16u), b * d + (q >> 16u) + (r >> 16u)); }
fn add64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  let l = x.x + y.x; return vec2(l, x.y + y.y + select(0u, 1u, l < x.x)); }"""

SORTS: Kernels = {
    "bitonic": _whole("""s[l.x] = a[i]; workgroupBarrier();
for (var k = 2u; k <= 64u; k = k << 1u) { for (var j = k >> 1u; j > 0u; j = j >> 1u) {
  let p = l.x ^ j; let x = s[l.x]; let y = s[p]; workgroupBarrier();
  let up = (l.x & k) == 0u; let low = l.x < p;
  s[l.x] = select(max(x, y), min(x, y), up == low); workgroupBarrier(); } }
o[i] = s[l.x];""", _S64),
    "odd_even": _whole("""s[l.x] = a[i] >> 20u; workgroupBarrier();
for (var r = 0u; r < 64u; r++) {
  if ((l.x & 1u) == (r & 1u) && l.x < 63u && s[l.x] > s[l.x + 1u]) {
    let t = s[l.x]; s[l.x] = s[l.x + 1u]; s[l.x + 1u] = t; }
  workgroupBarrier(); }
o[i] = s[l.x];""", _S64),
    "rank_sort": _whole("""s[l.x] = a[i] & 0xffu; workgroupBarrier(); var r = 0u;
for (var k = 0u; k < 64u; k++) {
  if (s[k] < s[l.x] || (s[k] == s[l.x] && k < l.x)) { r += 1u; } }
o[w.x * 64u + r] = a[i];""", _S64),
    "insertion": _whole("""var p: array<u32, 8>; for (var k = 0u; k < 8u; k++) {
  let v = (a[i] >> (k * 4u)) & 15u; var j = k;
  while (j > 0u && p[j - 1u] > v) { p[j] = p[j - 1u]; j -= 1u; } p[j] = v; }
var r = 0u; for (var k = 0u; k < 8u; k++) { r = r << 4u | p[k]; } o[i] = r ^ b[i];"""),
    "radix_digit": _whole("""if (l.x < 16u) { atomicStore(&c[l.x], 0u); } workgroupBarrier();
atomicAdd(&c[a[i] & 15u], 1u); workgroupBarrier(); var t = 0u;
for (var k = 0u; k < (a[i] & 15u); k++) { t += atomicLoad(&c[k]); } o[i] = t;""",
        "var<workgroup> c: array<atomic<u32>, 16>;"),
}  # fmt: skip

SCANS: Kernels = {
    "blelloch": _whole("""s[l.x] = a[i] >> 8u; var d = 1u;
for (var k = 128u; k > 0u; k = k >> 1u) { workgroupBarrier();
  if (l.x < k) { s[d * (2u * l.x + 2u) - 1u] += s[d * (2u * l.x + 1u) - 1u]; } d = d << 1u; }
if (l.x == 0u) { s[255] = 0u; }
for (var k = 1u; k < 256u; k = k << 1u) { d = d >> 1u; workgroupBarrier();
  if (l.x < k) { let p = d * (2u * l.x + 1u) - 1u; let q = d * (2u * l.x + 2u) - 1u;
    let t = s[p]; s[p] = s[q]; s[q] += t; } }
workgroupBarrier(); o[i] = s[l.x];""", _S256, block=(256, 1, 1), groups=(1, 1, 1)),
    "segmented": _whole("""s[l.x] = a[i] & 0xffu; f[l.x] = b[i] & 1u; workgroupBarrier();
for (var k = 1u; k < 64u; k = k << 1u) {
  var v = s[l.x]; var g0 = f[l.x];
  if (l.x >= k && g0 == 0u) { v += s[l.x - k]; g0 = f[l.x - k]; }
  workgroupBarrier(); s[l.x] = v; f[l.x] = g0; workgroupBarrier(); }
o[i] = s[l.x];""", _S64 + " var<workgroup> f: array<u32, 64>;"),
    "running_max": _whole("""s[l.x] = a[i]; workgroupBarrier();
for (var k = 1u; k < 64u; k = k << 1u) { var v = s[l.x];
  if (l.x >= k) { v = max(v, s[l.x - k]); } workgroupBarrier(); s[l.x] = v; workgroupBarrier(); }
o[i] = s[l.x];""", _S64),
    "compact": _whole("""let keep = (a[i] & 3u) == 0u; s[l.x] = select(0u, 1u, keep);
o[i] = 0u; storageBarrier(); workgroupBarrier(); var r = 0u;
for (var k = 0u; k < l.x; k++) { r += s[k]; } storageBarrier();
if (keep) { o[w.x * 64u + r] = a[i]; }""", _S64),
    "run_lengths": _whole("""s[l.x] = a[i] >> 30u; workgroupBarrier(); var c = 1u; var k = l.x;
loop { if (k == 0u) { break; } k -= 1u; if (s[k] != s[l.x]) { break; } c += 1u; }
o[i] = c * 10u + s[l.x];""", _S64),
}  # fmt: skip

STENCILS: Kernels = {
    "life": _whole("""let x = l.x; let y = l.y; s[li] = a[li] & 1u; workgroupBarrier();
for (var r = 0u; r < 3u; r++) { var c = 0u;
  for (var d = 0u; d < 9u; d++) { if (d != 4u) {
    c += s[((y + d / 3u + 15u) & 15u) * 16u + ((x + d % 3u + 15u) & 15u)]; } }
  let v = select(0u, 1u, c == 3u || (c == 2u && s[li] == 1u));
  workgroupBarrier(); s[li] = v; workgroupBarrier(); }
o[li] = s[li];""", _S256, block=(16, 16, 1), groups=(1, 1, 1)),
    "smooth": _whole("""s[l.x] = a[i] >> 4u; workgroupBarrier();
let p = s[max(l.x, 1u) - 1u]; let q = s[min(l.x + 1u, 63u)]; o[i] = (p + 2u * s[l.x] + q) >> 2u;
""", _S64),
    "transposed": _whole("""s[l.y * 17u + l.x] = a[g.y * 32u + g.x]; workgroupBarrier();
o[(w.x * 16u + l.y) * 32u + w.y * 16u + l.x] = s[l.x * 17u + l.y];""",
        "var<workgroup> s: array<u32, 272>;", block=(16, 16, 1), groups=(2, 2, 1), words=1024),
    "register_tiles": Kernel(
        block=(8, 8, 1), groups=(2, 2, 1), words=1024, ranges=(0.0, 1.0), close=1e-5,
        body="""var r: array<f32, 4>; let y = g.y * 2u; let x = g.x * 2u;
for (var k = 0u; k < 32u; k++) {
  let p = vec2(a[y * 32u + k], a[(y + 1u) * 32u + k]);
  let q = vec2(b[k * 32u + x], b[k * 32u + x + 1u]);
  r[0] += p.x * q.x; r[1] += p.x * q.y; r[2] += p.y * q.x; r[3] += p.y * q.y; }
o[y * 32u + x] = r[0]; o[y * 32u + x + 1u] = r[1];
o[(y + 1u) * 32u + x] = r[2]; o[(y + 1u) * 32u + x + 1u] = r[3];"""),
    "convolved": _whole("""var r = 0u; for (var k = 0u; k < 5u; k++) {
  r += a[(i + k + 254u) & 255u] * (b[k] & 7u); } o[i] = r;"""),
}  # fmt: skip

NUMBERS: Kernels = {
    "add_64": _whole("""let r = add64(vec2(a[i], b[i]), vec2(b[i], a[i])); o[i] = r.x ^ r.y;""",
        _PAIR),
    "multiply_64": _whole("let r = mul64(a[i], b[i]); o[i] = r.x + r.y * 3u;", _PAIR),
    "divide_64": _whole("""let v = vec2(a[i], b[i] >> 8u); let d = (b[i] & 0xffffu) | 1u;
var r = 0u; var q = 0u; for (var k = 64u; k > 0u; k--) { let at = k - 1u;
  let bit = (select(v.x, v.y, at >= 32u) >> (at & 31u)) & 1u; r = r << 1u | bit;
  q = q << 1u; if (r >= d) { r -= d; q |= 1u; } } o[i] = q ^ (r << 7u);"""),
    "greatest_divisor": _whole("""var x = (a[i] >> 12u) | 1u; var y = (b[i] >> 12u) | 1u;
while (y != 0u) { let t = x % y; x = y; y = t; } o[i] = x;"""),
    "collatz": _whole("""var x = (a[i] & 1023u) + 1u; var c = 0u;
while (x != 1u && c < 300u) { if ((x & 1u) == 0u) { x = x >> 1u; } else { x = 3u * x + 1u; }
  c++; } o[i] = c * 1000u + (b[i] & 1u);"""),
    "checksum": _whole("""var c = ~a[i]; for (var k = 0u; k < 32u; k++) {
  let m = 0u - (c & 1u); c = (c >> 1u) ^ (0xedb88320u & m); } o[i] = ~c ^ b[i];"""),
    "hash": _whole("""var h = b[i]; for (var k = 0u; k < 4u; k++) { var v = a[(i + k) & 255u];
  v *= 0xcc9e2d51u; v = v << 15u | v >> 17u; v *= 0x1b873593u; h ^= v;
  h = h << 13u | h >> 19u; h = h * 5u + 0xe6546b64u; }
h ^= h >> 16u; h *= 0x85ebca6bu; h ^= h >> 13u; o[i] = h;"""),
    "random": _whole("""var x = a[i] | 1u; for (var k = 0u; k < 20u; k++) {
  x ^= x << 13u; x ^= x >> 17u; x ^= x << 5u; } o[i] = x;"""),
    "whole_root": _whole("""let v = a[i]; var r = 0u; for (var k = 16u; k > 0u; k--) {
  let t = r | 1u << (k - 1u); if (t * t <= v && t < 65536u) { r = t; } } o[i] = r;"""),
    "fractal": _whole("""let cx = i32(i & 15u) * 300 - 2600; let cy = i32(i >> 4u) * 250 - 2000;
var x = 0; var y = 0; var c = 0u; loop { if (c >= 40u || x * x + y * y > 4000000) { break; }
  let t = (x * x - y * y) / 1000 + cx; y = 2 * x * y / 1000 + cy; x = t; c++; }
o[i] = c + (a[i] & 0u);"""),
    "modular_power": _whole("""var r = 1u; var x = a[i] % 46337u; var e = b[i] & 255u;
while (e > 0u) { if ((e & 1u) == 1u) { r = r * x % 46337u; } x = x * x % 46337u; e = e >> 1u; }
o[i] = r;"""),
    "exact_halves": Kernel(
        a="u32", b="u32", o="u32",
        body="""let x = vec2(f32(a[i] & 1023u), f32(b[i] & 511u) * 0.25);
let p = pack2x16float(x); let q = unpack2x16float(p); o[i] = p ^ u32(q.x * 4.0 + q.y);"""),
}  # fmt: skip

VALUES: Kernels = {
    "large_private": _whole("""var p: array<u32, 200>; for (var k = 0u; k < 200u; k++) {
  p[(k * 7u + (a[i] & 3u)) % 200u] = k * b[i]; } var r = 0u;
for (var k = 0u; k < 200u; k++) { r = r * 31u + p[k]; } o[i] = r;"""),
    "private_vectors": _whole("""var p: array<vec4<u32>, 12>; for (var k = 0u; k < 12u; k++) {
  p[k] = vec4(a[i], b[i], k, i) * (k + 1u); } let j = a[i] % 12u;
p[j].y += 5u; let v = p[(j * 5u + 1u) % 12u]; o[i] = v.x ^ v.y ^ v.z ^ v.w ^ p[j].y;"""),
    "live_values": _whole("var r = 0u;\n" + "\n".join(
        f"let v{k} = a[(i + {k}u) & 255u] * {2 * k + 1}u;" for k in range(60)
    ) + "\n" + "\n".join(f"r = (r ^ v{59 - k}) + v{k};" for k in range(60)) + "\no[i] = r;"),
    "constants": _whole("var r = b[i];\n" + "\n".join(
        f"r = (r ^ {(k * 0x9E3779B1 + 12345) & 0xFFFFFFFF}u) + a[(i + {k % 7}u) & 255u];"
        for k in range(90)
    ) + "\no[i] = r;"),
    "early_return": _whole("""if ((a[i] & 3u) == 0u) { o[i] = 1u; return; } var c = 0u;
for (var k = 0u; k < 20u; k++) { if ((b[i] >> k & 1u) == 0u) { continue; } c += k;
  if (c > 60u) { o[i] = c; return; } } o[i] = c + 1000u;"""),
    "nested": _whole("""var r = 0u; for (var x = 0u; x < (a[i] & 7u); x++) {
  for (var y = 0u; y < (b[i] & 7u); y++) { if (((x * y) & 1u) == 1u) { continue; }
    if (x + y > 9u) { break; } r += x * 8u + y; }
  switch (r & 3u) { case 0u: { r += 1u; } case 1u, 2u: { r ^= 5u; } default: { r = r << 1u; } } }
o[i] = r;"""),
    "stack": _whole("""var p: array<u32, 16>; var n0 = 1u; p[0] = a[i] & 63u; var c = 0u;
while (n0 > 0u && c < 200u) { n0 -= 1u; let v = p[n0]; c += v + 1u;
  if (v > 2u && n0 < 14u) { p[n0] = v / 2u; p[n0 + 1u] = v / 3u; n0 += 2u; } } o[i] = c;"""),
    "search": _whole("""s[l.x] = l.x * 67108864u; workgroupBarrier(); var lo = 0u; var hi = 64u;
while (hi - lo > 1u) { let m = (lo + hi) / 2u; if (s[m] <= a[i]) { lo = m; } else { hi = m; } }
o[i] = lo ^ (b[i] & 1u);""", _S64),
}  # fmt: skip

TOGETHER: Kernels = {
    "exchanges": _whole("""if (l.x == 0u) { atomicStore(&c, 0u); atomicStore(&d, 0xffffffffu); }
workgroupBarrier(); atomicOr(&c, 1u << (a[i] & 31u)); atomicAnd(&d, ~(1u << (b[i] & 31u)));
workgroupBarrier(); o[i] = atomicLoad(&c) ^ atomicLoad(&d);""",
        "var<workgroup> c: atomic<u32>; var<workgroup> d: atomic<u32>;"),
    "largest_by_compare": _whole("""if (l.x == 0u) { atomicStore(&c, 0u); } workgroupBarrier();
var old = atomicLoad(&c); loop { if (old >= a[i]) { break; }
  let r = atomicCompareExchangeWeak(&c, old, a[i]); if (r.exchanged) { break; }
  old = r.old_value; } workgroupBarrier(); o[i] = atomicLoad(&c);""",
        "var<workgroup> c: atomic<u32>;"),
    "wide_group": _whole("""s[li] = a[li & 255u] ^ li; workgroupBarrier();
let v = s[(li * 37u + 11u) & 511u]; o[li] = v + b[li & 255u];""",
        "var<workgroup> s: array<u32, 512>;", block=(512, 1, 1), groups=(1, 1, 1), out_words=512),
    "odd_group": _whole("""s[li] = a[w.x * 42u + li]; workgroupBarrier();
o[w.x * 42u + li] = s[(li + 5u) % 42u] ^ (l.x + l.y * 7u + l.z * 21u);""",
        "var<workgroup> s: array<u32, 42>;", block=(7, 3, 2), groups=(6, 1, 1)),
    "grid": _whole("""let at = (g.z * 4u + g.y) * 8u + g.x;
o[at] = a[at] + g.x * 100u + g.y * 10u + g.z + n.x * n.y * n.z;""",
        block=(4, 2, 2), groups=(2, 2, 4), indirect=True),
}  # fmt: skip

MORE: Kernels = {**SORTS, **SCANS, **STENCILS, **NUMBERS, **VALUES, **TOGETHER}
