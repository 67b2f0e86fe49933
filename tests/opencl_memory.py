"""Hand-written kernels and parts of memory for tests of OpenCL devices."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Program
from drivers.cl.building import builder
from drivers.cl.device import ClDevice
from queues.cl.kernel_code import ENTRY

SETTINGS: Final = (
    ("pocl", "FINE"), ("pocl", "COARSE"), ("pocl", "BUFFER"),
    ("intel", "FINE"), ("intel", "COARSE"), ("intel", "BUFFER"),
)  # fmt: skip
"""Both platforms with each kind of memory."""
READS: Final = "__kernel void NAME(__global const int *in, __global int *out HIDDEN) { BODY }"
DOUBLE: Final = READS.replace("BODY", "for (int i = 0; i < 16; i++) out[i] = 2 * in[i];")
TEXELS: Final = """__constant sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP |
CLK_FILTER_NEAREST;
__kernel void NAME(__read_only image2d_t in, __global float4 *out HIDDEN) {
for (int y = 0; y < 4; y++) for (int x = 0; x < 8; x++)
out[y * 8 + x] = read_imagef(in, exact, (int2)(x, y)); }"""
WRITES: Final = """__kernel void NAME(
__write_only image2d_t out, __global const float4 *in HIDDEN) {
for (int y = 0; y < 4; y++) for (int x = 0; x < 8; x++)
write_imagef(out, (int2)(x, y), in[y * 8 + x] + 1.0f); }"""


def written(device: ClDevice, source: str, name: str = "own") -> Program:
    """A program of two arguments, written by hand, in the shape that the device's kernels have."""
    from compilers.opencl.family import GPU, PROCESSOR

    hidden = ", __global uchar *scratch, ulong count" if device.hidden_args else ""
    text = source.replace("NAME", ENTRY + name).replace("HIDDEN", hidden)
    family = PROCESSOR if device.hidden_args else GPU
    blob = builder(device.arch).build(text, 0 if device.hidden_args else 1).encode()
    return device.load(family.load(blob, name, device.arch))
