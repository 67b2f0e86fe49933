"""Kernels of the Turnip witness: shared memory, atomics, grids, subgroups."""

from __future__ import annotations

from tests.turnip.kernel import Kernel, Kernels
from tests.turnip.subgroups import expected_ballots, expected_scans, expected_shuffles

SHARED: Kernels = {
    "reverse": Kernel(
        a="u32", b="u32", o="u32", head="var<workgroup> s: array<u32, 64>;",
        body="s[l.x] = a[i]; workgroupBarrier(); o[i] = s[63u - l.x] + b[i];",
    ),
    "tree": Kernel(
        a="u32", b="u32", o="u32", out_words=4, block=(128, 1, 1), groups=(2, 1, 1),
        head="var<workgroup> s: array<u32, 128>;",
        body="""s[l.x] = a[i] + b[i]; workgroupBarrier();
for (var k = 64u; k > 0u; k = k >> 1u) {
  if (l.x < k) { s[l.x] += s[l.x + k]; } workgroupBarrier(); }
if (l.x == 0u) { o[w.x] = s[0]; }""",
    ),
    "scan": Kernel(
        a="u32", b="u32", o="u32", block=(256, 1, 1), groups=(1, 1, 1),
        head="var<workgroup> s: array<u32, 256>;",
        body="""s[l.x] = a[i] & 0xffffu; workgroupBarrier();
for (var k = 1u; k < 256u; k = k << 1u) {
  var v = 0u; if (l.x >= k) { v = s[l.x - k]; }
  workgroupBarrier(); s[l.x] += v; workgroupBarrier(); }
o[i] = s[l.x] + (b[i] & 1u);""",
    ),
    "tiles": Kernel(
        block=(16, 16, 1), groups=(2, 2, 1), words=1024, ranges=(0.0, 1.0), close=1e-5,
        head="var<workgroup> p: array<f32, 256>; var<workgroup> q: array<f32, 256>;",
        body="""var r = 0.0;
for (var t = 0u; t < 2u; t++) {
  p[li] = a[g.y * 32u + t * 16u + l.x]; q[li] = b[(t * 16u + l.y) * 32u + g.x];
  workgroupBarrier();
  for (var k = 0u; k < 16u; k++) { r = fma(p[l.y * 16u + k], q[k * 16u + l.x], r); }
  workgroupBarrier(); }
o[g.y * 32u + g.x] = r;""",
    ),
    "uniform_load": Kernel(
        a="u32", b="u32", o="u32", head="var<workgroup> s: u32;",
        body="if (l.x == 17u) { s = a[i]; } let v = workgroupUniformLoad(&s); o[i] = v + b[i];",
    ),
    "shared_bytes": Kernel(
        a="u32", b="u32", o="u32", head="struct P { x: u32, y: vec3<u32>, z: u32 }\n"
        "var<workgroup> s: array<P, 64>;",
        body="""s[l.x].x = a[i]; s[l.x].y = vec3(b[i], i, l.x); s[l.x].z = a[i] ^ b[i];
workgroupBarrier(); let p = s[(l.x * 5u + 3u) & 63u]; o[i] = p.x + p.y.x * 3u + p.y.y + p.z;""",
    ),
}  # fmt: skip

ATOMICS: Kernels = {
    "atomic_add": Kernel(
        a="u32", b="u32", o="atomic<u32>",
        body="atomicAdd(&o[a[i] & 7u], b[i]); atomicSub(&o[8u + (b[i] & 7u)], a[i]);",
    ),
    "atomic_bits": Kernel(
        a="u32", b="u32", o="atomic<u32>",
        body="""atomicOr(&o[a[i] & 3u], b[i] & 0x11111111u); atomicXor(&o[4u + (a[i] & 3u)], b[i]);
atomicMax(&o[8u], a[i]); atomicMin(&o[9u], 5u); atomicMax(&o[10u], b[i] >> 3u);
atomicAnd(&o[11u], a[i]);""",
    ),
    "atomic_signed": Kernel(
        a="i32", b="i32", o="atomic<i32>",
        body="atomicMin(&o[i & 3u], a[i]); atomicMax(&o[4u + (i & 3u)], b[i]);",
    ),
    "atomic_claim": Kernel(
        a="u32", b="u32", o="atomic<u32>",
        body="""let r = atomicCompareExchangeWeak(&o[i], 0u, a[i]);
if (r.exchanged) { let old = atomicExchange(&o[i], r.old_value + b[i]); atomicAdd(&o[i], old); }""",
    ),
    "histogram": Kernel(
        a="u32", b="u32", o="atomic<u32>", head="var<workgroup> s: array<atomic<u32>, 17>;",
        body="""if (l.x < 17u) { atomicStore(&s[l.x], 0u); } workgroupBarrier();
atomicAdd(&s[a[i] >> 28u], 1u); atomicMax(&s[16u], b[i] & 3u); workgroupBarrier();
if (l.x < 17u) { atomicAdd(&o[l.x], atomicLoad(&s[l.x])); }""",
    ),
}  # fmt: skip

GRIDS: Kernels = {
    "solid": Kernel(
        a="u32", b="u32", o="u32", block=(4, 4, 4), groups=(2, 3, 2), words=1024,
        body="""let at = (g.z * 12u + g.y) * 8u + g.x;
o[at] = a[at] + n.x + 10u * n.y + 100u * n.z + 1000u * w.z + b[at] * (w.y + li);""",
    ),
    "odd_group": Kernel(
        a="u32", b="u32", o="u32", block=(37, 1, 1), groups=(5, 1, 1),
        body="o[i] = a[i] * 3u + b[i] + l.x;",
    ),
    "short_group": Kernel(
        a="u32", b="u32", o="u32", block=(3, 5, 1), groups=(4, 2, 1),
        head="var<workgroup> s: array<u32, 15>;",
        body="""let at = (w.y * 4u + w.x) * 15u + li; s[li] = a[at]; workgroupBarrier();
o[at] = s[14u - li] + b[at];""",
    ),
    "large_group": Kernel(
        a="u32", b="u32", o="u32", block=(512, 1, 1), groups=(2, 1, 1), words=1024,
        needs=("limit-512",), head="var<workgroup> s: array<u32, 512>;",
        body="s[l.x] = a[i]; workgroupBarrier(); o[i] = s[511u - l.x] ^ b[i];",
    ),
    "again": Kernel(
        a="u32", b="u32", o="u32", times=4,
        body="o[i] = o[i] * 3u + a[i] + (b[i] ^ o[i]);",
    ),
    "indirect": Kernel(
        a="u32", b="u32", o="u32", indirect=True, body="o[i] = a[i] + b[i] + n.x;",
    ),
    "length": Kernel(
        a="u32", b="u32", o="u32",
        body="o[i] = arrayLength(&a) + arrayLength(&o) * 1000u + b[i];",
    ),
    "outside": Kernel(
        a="u32", b="u32", o="u32", body="if (i % 3u != 0u) { o[i + 100000u] = 1u; }"
        " o[i] = b[i] + a[i] * select(1u, 2u, i > 5u);",
    ),
    "strided": Kernel(
        a="vec3<f32>", b="f32", o="f32", words=1024, out_words=256,
        body="let v = a[i]; o[i] = v.x * 2.0 + v.y - v.z + b[i * 4u];", close=1e-5,
    ),
}  # fmt: skip

TEXTURES: Kernels = {
    "texture_load": Kernel(
        texture="r32float",
        body="o[i] = textureLoad(t, vec2(i & 7u, (i >> 3u) & 7u), 0).x * 2.0 + a[i] * 0.0;",
    ),
    "texture_load_wide": Kernel(
        texture="rgba32float", close=1e-6,
        body="let v = textureLoad(t, vec2(i & 7u, (i >> 3u) & 7u), 0);"
        " o[i] = v.x - v.y + v.z * v.w;",
    ),
    "texture_load_bytes": Kernel(
        texture="rgba8unorm", close=1e-6,
        body="let v = textureLoad(t, vec2(i & 7u, (i >> 3u) & 7u), 0);"
        " o[i] = v.x - v.y + v.z * v.w;",
    ),
    "texture_integers": Kernel(
        texture="r32uint", a="u32", b="u32", o="u32",
        body="o[i] = textureLoad(t, vec2(i & 7u, (i >> 3u) & 7u), 0).x ^ a[i]"
        " + textureDimensions(t).x * b[i];",
    ),
    "texture_store": Kernel(
        texture="r32uint", stored=True, times=3, block=(8, 8, 1), groups=(1, 1, 1),
        a="u32", b="u32", o="u32",
        body="""let v = textureLoad(t, g.xy).x;
textureStore(t, g.xy, vec4<u32>(v * 3u + a[li], 0u, 0u, 0u)); o[li] = v;""",
    ),
    "texture_sample": Kernel(
        texture="r32float", ranges=(-0.5, 1.5),
        body="o[i] = textureSampleLevel(t, s, vec2(a[i], b[i]), 0.0).x;",
    ),
    "texture_filter": Kernel(
        texture="rgba8unorm", filtered=True, ranges=(0.0, 1.0), close=1e-2,
        body="let v = textureSampleLevel(t, s, vec2(a[i], b[i]), 0.0); o[i] = v.x + v.y + v.w;",
    ),
}  # fmt: skip

_AT = "vec2((i * 7u) % {side}u, (i * 5u + (i >> 5u)) % {side}u)"


def _tiled(texture: str, side: int, body: str, close: float = 0.0) -> Kernel:
    """Of a texture that Turnip tiles: texels all over it."""
    kind = "u32" if texture.endswith("uint") else "f32"
    text = f"let v = textureLoad(t, {_AT.format(side=side)}, 0); {body}"
    return Kernel(
        texture=texture, side=side, body=text, close=close, a=kind, b=kind, o=kind,
    )  # fmt: skip


TILED: Kernels = {
    "tiled_words": _tiled("r32uint", 40, "o[i] = v.x ^ a[i];"),
    "tiled_pairs": _tiled("rg32uint", 72, "o[i] = v.x * 3u + v.y + a[i];"),
    "tiled_wide": _tiled("rgba32uint", 24, "o[i] = v.x * 3u + (v.y ^ v.z) * 5u + v.w;"),
    "tiled_bytes": _tiled("rgba8unorm", 136, "o[i] = v.x - v.y + v.z * v.w;", close=1e-6),
    "tiled_narrow": _tiled("r8unorm", 200, "o[i] = v.x * 2.0;", close=1e-6),
    "tiled_banks": _tiled("r32uint", 1024, "o[i] = v.x ^ b[i];"),
    "tiled_store": Kernel(
        texture="r32uint", side=64, stored=True, times=2, block=(8, 8, 1), groups=(8, 8, 1),
        a="u32", b="u32", o="u32", words=4096,
        body="""let v = textureLoad(t, g.xy).x; let at = g.y * 64u + g.x;
textureStore(t, g.xy, vec4<u32>(v * 3u + a[at], 0u, 0u, 0u)); o[at] = v;""",
    ),
    "tiled_layers": Kernel(
        texture="r32uint", side=40, layers=3, a="u32", b="u32", o="u32",
        body=f"o[i] = textureLoad(t, {_AT.format(side=40)}, i % 3u, 0).x ^ a[i]"
        " ^ textureNumLayers(t);",
    ),
    "tiled_filter": Kernel(
        texture="rgba8unorm", side=48, filtered=True, ranges=(0.0, 1.0), close=1e-2,
        body="let v = textureSampleLevel(t, s, vec2(a[i], b[i]), 0.0); o[i] = v.x + v.y + v.w;",
    ),
}  # fmt: skip

LOOKS: Kernels = {
    "gather": Kernel(
        texture="rgba8unorm", filtered=True, ranges=(0.02, 0.98), close=1e-6,
        body="let v = textureGather(1, t, s, vec2(a[i], b[i]));"
        " o[i] = v.x + v.y * 2.0 + v.z * 4.0 + v.w * 8.0;",
    ),
    "gather_beside": Kernel(
        texture="r32float", ranges=(0.02, 0.98), close=1e-6,
        body="let v = textureGather(0, t, s, vec2(a[i], b[i]), vec2(1, -2));"
        " o[i] = v.x + v.y * 2.0 + v.z * 4.0 + v.w * 8.0;",
    ),
    "sample_beside": Kernel(
        texture="r32float", ranges=(0.0, 1.0),
        body="o[i] = textureSampleLevel(t, s, vec2(a[i], b[i]), 0.0, vec2(2, -1)).x;",
    ),
    "layers": Kernel(
        texture="r32uint", layers=5, a="u32", b="u32", o="u32",
        body="o[i] = textureLoad(t, vec2(i & 7u, (i >> 3u) & 7u), (i + (i >> 4u)) % 5u, 0).x"
        " ^ a[i];",
    ),
    "layer_samples": Kernel(
        texture="r32float", layers=4, ranges=(0.0, 1.0),
        body="o[i] = textureSampleLevel(t, s, vec2(a[i], b[i]), i32(i & 3u), 0.0).x;",
    ),
    "layer_gather": Kernel(
        texture="rgba8unorm", layers=4, filtered=True, ranges=(0.02, 0.98), close=1e-6,
        body="let v = textureGather(2, t, s, vec2(a[i], b[i]), i32(i & 3u), vec2(-1, 1));"
        " o[i] = v.x + v.y * 2.0 + v.z * 4.0 + v.w * 8.0;",
    ),
}  # fmt: skip

SUBGROUPS: Kernels = {
    "ballots": Kernel(
        a="u32", b="u32", o="u32", needs=("subgroup",), out_words=1024, expected=expected_ballots,
        head="",
        body="""let v = subgroupBallot((a[i] & 1u) != 0u);
o[4u * i] = v.x; o[4u * i + 1u] = v.y; o[4u * i + 2u] = subgroupBroadcastFirst(b[i]);
o[4u * i + 3u] = select(0u, 1u, subgroupAny(a[i] == 0u)) + select(0u, 2u, subgroupAll(i < 999u));
""",
    ),
    "scans": Kernel(
        a="u32", b="u32", o="u32", needs=("subgroup",), out_words=1024, expected=expected_scans,
        body="""o[4u * i] = subgroupAdd(a[i]); o[4u * i + 1u] = subgroupExclusiveAdd(b[i]);
o[4u * i + 2u] = subgroupMax(a[i]); o[4u * i + 3u] = subgroupInclusiveAdd(a[i] ^ b[i]);""",
    ),
    "shuffles": Kernel(
        a="u32", b="u32", o="u32", needs=("subgroup",), out_words=1024, expected=expected_shuffles,
        body="""o[4u * i] = subgroupShuffleXor(a[i], 5u);
o[4u * i + 1u] = subgroupShuffle(b[i], (l.x * 7u) & 31u);
o[4u * i + 2u] = subgroupBroadcast(a[i], 3u); o[4u * i + 3u] = quadSwapX(b[i]);""",
    ),
}  # fmt: skip
