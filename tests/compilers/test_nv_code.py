"""Kernels for every NVIDIA architecture, both ways to a cubin; what nvdisasm shows of them.

Nothing runs here: what the code computes is for boards and silicon to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.families import family_of
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.lower.choose import Target
from compilers.nv import cubin, disasm, nvrtc, ptx, render_cuda, render_ptx
from compilers.nv.targets import STATIC_SHARED_BYTES, TARGETS
from compilers.objects.listing import disassemble
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Binary
from queues.nv.kernel_code import NvCode
from tests.compilers.lowering import matmul
from tests.compilers.test_made_up_gpus import KINDS
from tests.nv_cubins import needs_nvdisasm, needs_nvjitlink, needs_nvrtc
from tests.support import check

WAYS = {"NVRTC": needs_nvrtc, "PTX": needs_nvjitlink}
ways = pytest.mark.parametrize("way", [pytest.param(n, marks=m) for n, m in WAYS.items()])
every_arch = pytest.mark.parametrize("arch", TARGETS)


def kernels(root: Node, arch: str) -> list[Kernel]:
    key, _ = signature([root])
    found = plan(rebuild(key).roots, Target.gpu_of(arch, 4)).steps
    return [replace(step.kernel, name=f"k{n}") for n, step in enumerate(found)]


def built(kernel: Kernel, way: str, arch: str) -> Binary:
    """Without a cache."""
    toolchain = toolchains.toolchain_of(way, arch)
    source = toolchain.render(kernel, arch, frozenset())
    blob = toolchain.compiler.compile_object(source, arch, frozenset())
    family = family_of(arch)
    binary = family.with_shared(family.load(blob, kernel.name, arch), kernel.shared_bytes)
    return binary.in_blocks_of(kernel.block)


def halves(dtype: dt.DType, *shape: int) -> Node:
    node = graph.buffer(object(), dtype, shape)
    return graph.cast(node, dt.float32)


def product(dtype: dt.DType, size: int = 128) -> Node:
    return matmul(halves(dtype, size, size), halves(dtype, size, size))


def mnemonics(binary: Binary) -> Counter[str]:
    """How often each instruction is there, without its guard."""
    texts = (line.text.split() for line in disassemble(binary))
    return Counter(words[1 if words[0].startswith("@") else 0] for words in texts)


@ways
@every_arch
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_kernel_is_assembled(name: str, arch: str, way: str) -> None:
    for kernel in kernels(KINDS[name]()[0], arch):
        binary = built(kernel, way, arch)
        code, needs = NvCode.of(binary), binary.resources
        check(code.sm == TARGETS[arch].sm, f"{code}")
        check(code.max_threads == needs.max_block == kernel.block, f"{code}")
        check(code.local_bytes == 0, f"{name}: {code.local_bytes} bytes a lane are spilled")
        args = needs.args or ()
        check(len(args) == len(kernel.params) and all(arg.buffer for arg in args), f"{args}")
        check(bool(needs.shared_bytes) == bool(kernel.shared_bytes), f"{needs.shared_bytes} bytes")
        check(needs.shared_bytes <= TARGETS[arch].shared_bytes, f"{needs.shared_bytes} bytes")
        large = kernel.shared_bytes if kernel.shared_bytes > STATIC_SHARED_BYTES else 0
        check(code.dynamic_bytes == large, f"{code.dynamic_bytes} of {kernel.shared_bytes} bytes")


@needs_nvdisasm
@ways
@every_arch
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=lambda dtype: dtype.name)
def test_products_of_halves_use_tensor_cores(dtype: dt.DType, arch: str, way: str) -> None:
    """HMMA of the depth that the architecture has, HGMMA of sm_90a; sm_75 has none of bfloat16.
    From sm_80 on operands are copied and gathered, but for HGMMA, which reads shared memory."""
    (kernel,) = kernels(product(dtype), arch)
    found = mnemonics(built(kernel, way, arch))
    matrix = {name for name in found if "MMA" in name}
    copied = {name.split(".")[0] for name in found} & {"LDGSTS", "LDSM", "LDGDEPBAR"}
    if arch == "sm_75":
        want = {"HMMA.1688.F32"} if dtype is dt.float16 else set()
        check(not copied, f"{copied}")
    elif arch == "sm_90a":
        want = {"HGMMA.64x64x16.F32" + (".BF16" if dtype is dt.bfloat16 else "")}
        check(copied == {"LDGSTS", "LDGDEPBAR"}, f"{copied}")
    else:
        check(copied == {"LDGSTS", "LDSM", "LDGDEPBAR"}, f"{copied}")
        want = {"HMMA.16816.F32" + (".BF16" if dtype is dt.bfloat16 else "")}
    check(matrix == want, f"{arch}: {matrix}")
    check(not {name for name in found if name.startswith(("STL", "LDL"))}, "no spills")


@needs_nvdisasm
@ways
def test_wide_loads_and_stores(way: str) -> None:
    """A lane moves 128 bits at once where neighbours are contiguous."""
    x = graph.buffer(object(), dt.float32, (4096,))
    (kernel,) = kernels(graph.binary("add", x, x), "sm_86")
    found = mnemonics(built(kernel, way, "sm_86"))
    check(any(name.startswith("LDG.E.128") for name in found), f"{found}")
    check(found["STG.E.128"] > 0, f"{found}")


@needs_nvdisasm
@ways
def test_no_product_and_sum_are_fused(way: str) -> None:
    """a * b + c is two roundings, as on every device."""
    a, b, c = (graph.buffer(object(), dt.float32, (4096,)) for _ in range(3))
    (kernel,) = kernels(graph.binary("add", graph.binary("mul", a, b), c), "sm_86")
    found = mnemonics(built(kernel, way, "sm_86"))
    check(found["FMUL"] and found["FADD"] and not found["FFMA"], f"{found}")


@needs_nvrtc
@needs_nvjitlink
@needs_nvdisasm
def test_offsets_are_those_of_the_code() -> None:
    """Both ways: as many instructions as the code has, 16 bytes each."""
    (kernel,) = kernels(product(dt.float16), "sm_90a")
    for way in WAYS:
        binary = built(kernel, way, "sm_90a")
        code = NvCode.of(binary)
        lines = disasm.listed(binary.image[: code.code_bytes], "sm_90a")
        wanted = list(range(0, code.code_bytes, disasm.INSTRUCTION_BYTES))
        check([at for at, _ in lines] == wanted, f"{way}: {len(lines)} lines")


def test_equal_kernels_give_equal_texts() -> None:
    """Rendering takes no compiler of NVIDIA's."""
    for render in (render_cuda.render, render_ptx.render):
        texts = {render(kernels(product(dt.float16), "sm_86")[0], "sm_86") for _ in range(2)}
        check(len(texts) == 1, "one text")


def test_names_of_the_family() -> None:
    family = family_of("sm_121")
    check(list(family.toolchains) == ["NVRTC", "PTX"], "nvrtc is the default")
    compilers = [toolchain.compiler for toolchain in family.toolchains.values()]
    check(compilers == [nvrtc, ptx] and family.functions is not None, f"{compilers}")
    check(cubin.PAGE_BYTES == 4096, "variables begin at a page")
