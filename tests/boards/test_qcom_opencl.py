"""Kernels by way of OpenCL C and synthetic containers on boards, and what is refused on the way.

No program of Qualcomm's compiler was ever here: the containers hold this stack's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor
from compilers import binary, graph, toolchains
from compilers import dtype as dt
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom import cl_code, cl_compiler, cl_library, cl_render
from compilers.qcom.cl_container import Argument, ClProgram, Constant, Parameter
from drivers.base.contracts import Param
from drivers.base.errors import (
    CompileError,
    MalformedInput,
    NotFound,
    Unsupported,
)
from drivers.qcom.device import QcomDevice
from queues.qcom import launch, words
from queues.qcom.chips import BY_NAME
from queues.qcom.kernel_code import AdrenoCode
from tensor import engine
from tests.compilers.lowering import leaf, matmul
from tests.qcom_boards import type4, type7
from tests.qcom_devices import QcomMachine, opened, qcom_device
from tests.qcom_opencl import MadeUp, program_of
from tests.qcom_programs import container
from tests.support import check

SOURCE = """__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void k_blend(__global float *restrict p0) { p0[get_local_id(0)] = 1.0f; }
"""
NONE = frozenset[str]()
PLAIN = ClProgram(
    name="k_blend", code=bytes(128), entry=0, full_registers=3, half_registers=2, branch_stack=2,
    private_bytes=0, shared_bytes=0, samplers=0, parameters=(Parameter(0, Argument.BUFFER),),
    constants=(Constant(5, 64, 4),),
)  # fmt: skip
"""Of zeros: for what is refused, or looked at."""
Install = Callable[[MadeUp], MadeUp]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Puts a made-up library in the place of the system's; kernels are not cached from it."""

    def put(made: MadeUp) -> MadeUp:
        place = tmp_path / "libOpenCL.so"
        place.write_bytes(b"")
        monkeypatch.setenv("UNBOUND_CACHE", str(tmp_path))
        monkeypatch.setattr(cl_library, "PATHS", (str(place),))
        monkeypatch.setattr(cl_library, "library", made.library)
        return made

    return put


class Compiler:
    """Knows the kernels that were rendered, by their text."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, arch: str = "a630") -> None:
        self.kernels: dict[str, Kernel] = {}
        self.arch = arch
        self.plain = cl_render.render
        monkeypatch.setattr(cl_render, "render", self.render)

    def render(self, kernel: Kernel) -> str:
        text = self.plain(kernel)
        self.kernels[text] = kernel
        return text

    def compiles(self, text: str) -> bytes:
        kernel = self.kernels[text]
        return container(program_of(kernel, self.arch, f"k_{kernel.name}"))


@contextmanager
def device(chip: str = "a630") -> Iterator[QcomDevice]:
    machine = QcomMachine(chip)
    with opened(machine, settings={"QCOM_CL": "1"}) as made:
        yield made
    check(not (found := machine.found()), f"violations: {found[:3]}")


def runs(made: QcomDevice, root: Node, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The result of a graph's one kernel, launched; and the same from a graph of the device."""
    key, leaves = signature([root])
    (step,) = (steps := plan(rebuild(key).roots, Target.of(made.limits, made.arch))).steps
    check(made.compilers[0] == "CL", "the compiler that was asked for")
    program = made.load(toolchains.build(step.kernel, "CL", made.arch, made.limits.features))
    check(program.kernel.code.opencl == 1, "launched as OpenCL code")
    check(step.kernel.grid > 1, "workgroups have numbers")
    buffers = []
    for one in leaves:
        buffers.append(made.alloc(len(one.tobytes())))
        made.copy_in(buffers[-1], memoryview(one.tobytes()))
    buffers += [made.alloc(nbytes) for nbytes in steps.nbytes]
    args, out = [buffers[value] for value in step.values], buffers[steps.roots[0]]
    found = [np.zeros(shape, np.float32) for _ in range(2)]
    made.launch(program, args, step.kernel.grid)
    made.copy_out(memoryview(found[0].reshape(-1).view(np.uint8)), out)
    made.copy_in(out, memoryview(bytes(found[0].nbytes)))
    queue = made.compute_queue().exec(program, [Param(n) for n in range(len(args))],
                                      (step.kernel.grid, 1, 1))  # fmt: skip
    bound = queue.bind()
    bound.replay(args)
    made.copy_out(memoryview(found[1].reshape(-1).view(np.uint8)), out)
    bound.close()
    return found[0], found[1]


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["product", "sums", "scaled"])
def test_kernels_are_numpys(kind: str, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers, so that every order of sums is exact."""
    library = install(MadeUp(Compiler(monkeypatch).compiles))
    a, b = whole(136, 136), whole(136, 136)
    root, want = {
        "product": (matmul(leaf(a), leaf(b)), a @ b),
        "sums": (graph.reduce("add", leaf(a), (1,)), a.sum(1)),
        "scaled": (graph.binary("mul", leaf(a), graph.const(1234.0, dt.float32, (136, 136))),
                   a * np.float32(1234)),
    }[kind]  # fmt: skip
    with device() as made:
        for found in runs(made, root, want.shape):
            np.testing.assert_array_equal(found, want)
    check(library.held == 0, "contexts and programs are released")


@pytest.mark.parametrize("chip", ["a660", "a630"])
def test_tensors_are_numpys(chip: str, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several kernels one after another, with halves and integers among them."""
    compiler = Compiler(monkeypatch, chip)
    version = f"OpenCL 3.0 Adreno(TM) {chip[1:]}\0".encode()
    install(MadeUp(compiler.compiles, version=version))
    a, b = whole(20, 30), whole(30, 20)
    with device(chip) as made, engine.adopted("QCOM", made):
        x, y = (tensor.asarray(one, device="QCOM") for one in (a, b))
        z = tensor.asarray(a.astype(np.int32), device="QCOM")
        halves = tensor.astype(x, tensor.float16) + 1
        for root, want in (
            (tensor.max(x @ y, axis=1), (a @ b).max(1)),
            (tensor.sum(halves, axis=0), (a + 1).sum(0).astype(np.float16)),
            (z // 3, a.astype(np.int32) // 3),
        ):
            np.testing.assert_array_equal(root.numpy(), want)
        del x, y, z, halves, root
    check(len(compiler.kernels) > 2, "kernels came this way")


def test_a_device_opened_for_the_other_compiler_says_what_to_do() -> None:
    """Its kernels exchange values between lanes."""
    with qcom_device("a630") as made, engine.adopted("QCOM", made, "CL"):
        x = tensor.asarray(whole(64, 512), device="QCOM")
        with pytest.raises(Unsupported, match="QCOM_CL=1"):
            tensor.sum(x, axis=1).numpy()
        del x


def compiled(program: ClProgram | bytes, arch: str = "a630") -> AdrenoCode:
    """What the compiler's toolchain makes of a container."""
    blob = program if isinstance(program, bytes) else container(program)
    library = MadeUp(lambda text: blob)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cl_library, "library", library.library)
        made = binary.decode(cl_compiler.compile_object(SOURCE, arch, NONE))
    return AdrenoCode.of(made)


def test_what_a_container_says_is_what_is_launched() -> None:
    code = compiled(PLAIN)
    check((code.full_registers, code.half_registers, code.branch_stack) == (3, 2, 2))
    check((code.wave_lanes, code.constlen, code.literal_words) == (64, 256, 20))


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"samplers": 1}, Unsupported, "samplers"),
        ({"parameters": (Parameter(0, Argument.TEXTURE),)}, Unsupported, "images"),
        ({"parameters": (Parameter(4, Argument.BUFFER),)}, MalformedInput, "multiple of 8"),
        ({"constants": (Constant(1, 4, 4),)}, MalformedInput, "two values"),
        ({"constants": (Constant(1, 4096, 4),)}, Unsupported, "constants up to"),
        ({"entry": 8}, Unsupported, "begins at"),
        ({"name": "other"}, MalformedInput, "other"),
    ],
)
def test_programs_that_are_refused(
    changed: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        compiled(replace(PLAIN, **changed))


def test_every_shorter_container_is_refused() -> None:
    blob = container(PLAIN)
    for size in range(1, len(blob), 7):
        with pytest.raises(MalformedInput):
            compiled(blob[:size])


def test_registers_limit_the_lanes() -> None:
    """48 vec4 and 96 halves are 96, all that a630 has for two waves of 64."""
    large = replace(PLAIN, full_registers=48, half_registers=96)
    check(cl_code.most_lanes(large, "a630") == 128)
    with pytest.raises(Unsupported, match="leave 128"):
        cl_code.binary_of(large, "a630", 256)


def test_a_build_error_has_the_log_and_the_source(install: Install) -> None:
    log = "<source>:2:1: error: expected ';'"
    library = install(MadeUp(lambda text: log))
    with pytest.raises(CompileError, match="expected ';'") as caught:
        cl_compiler.compile_object(SOURCE, "a630", NONE)
    check((caught.value.log.strip(), caught.value.source) == (log, SOURCE))
    check(library.held == 0, "contexts and programs are released")


@pytest.mark.parametrize(
    ("library", "error", "told"),
    [
        (MadeUp(lambda text: b"", vendor=b"The pocl project\0"), Unsupported, "The pocl project"),
        (MadeUp(lambda text: b"", version=b"OpenCL 2.0 Adreno(TM) 640\0"), Unsupported, "640"),
        (MadeUp(lambda text: b"", version=b"OpenCL 3.0\0"), Unsupported, "OpenCL 3.0"),
        (MadeUp(lambda text: b"", vendor=b"Q" * 5000), Unsupported, "5000 bytes"),
        (MadeUp(lambda text: b"", gpus=0), NotFound, "no GPU"),
        (MadeUp(lambda text: b""), Unsupported, "0 bytes"),
        (MadeUp(lambda text: "x" * (2 << 20)), Unsupported, "build log"),
    ],
)
def test_libraries_that_are_refused(
    library: MadeUp, error: type[Exception], told: str, install: Install
) -> None:
    install(library)
    with pytest.raises(error, match=told):
        cl_compiler.compile_object(SOURCE, "a630", NONE)


def test_without_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cl_library, "PATHS", (str(tmp_path / "libOpenCL.so"),))
    with pytest.raises(NotFound, match="QCOM_IR3"):
        cl_compiler.identity()
    with pytest.raises(NotFound, match="libOpenCL"):
        cl_library.find()


def test_generation_7_and_other_sources_are_refused(install: Install) -> None:
    install(MadeUp(lambda text: container(PLAIN)))
    with device("a740") as made:
        key, _ = signature([graph.unary("neg", leaf(whole(64)))])
        (step,) = plan(rebuild(key).roots, Target.of(made.limits, made.arch)).steps
        with pytest.raises(Unsupported, match="generation 6"):
            toolchains.build(step.kernel, "CL", made.arch, made.limits.features)
    with pytest.raises(Unsupported, match="generation 6"):
        cl_compiler.compile_object(SOURCE, "x1-85", NONE)
    with pytest.raises(CompileError, match="reqd_work_group_size"):
        cl_compiler.compile_object("__kernel void f() {}", "a630", NONE)


def test_the_packets_of_a_launch() -> None:
    """# src: tinygrad 0.14.0, runtime/ops_qcom.py, QCOMComputeQueue.exec, its literal numbers"""
    chip, code = BY_NAME["a630"], compiled(PLAIN)
    kernel = launch.Kernel(
        name="k", code_va=1 << 20, code=code, args=((0, 8),), literals=(0,) * 16 + (5, 0, 0, 0),
        block=(64, 1, 1), max_block=64, shared_bytes=0,
    )  # fmt: skip
    made = launch.build(chip, kernel, (64, 1, 1)).words
    for packet in (
        type4(0xB997, 0x00CCC0CF, 0xFC),
        type4(0xA9B0, 3 << 7 | 2 << 1 | 2 << 14, 1 | 2 << 5),
        [*type4(0xB999, 0, 0, 0), *type7(0x31, 0)],
        [*kernel.literals, *type7(0x65, 8)],
    ):
        size = len(packet)
        found = any(made[at : at + size] == packet for at in range(len(made)))
        check(found, f"{[hex(word) for word in packet]} is not in a launch")
    head = type4(0xAB00, 0)[0]
    modes = [made[at + 1] for at, word in enumerate(made) if word == head]
    check(modes == [2, 5], f"ISAMMODE_CL, then as before: {modes}")


@pytest.mark.parametrize("arch", ["a630", "a740"])
def test_other_kernels_run_in_the_mode_of_opengl(arch: str) -> None:
    """5 is what Mesa's decoder shows as ISAMMODE_GL with constants converted; ISAMMODE_GL is 2."""
    setup = words.setup(BY_NAME[arch])
    for packet in (type4(0xAB00, 5), type4(0xB309, 0xA2)):
        found = any(setup[at : at + 2] == packet for at in range(len(setup)))
        check(found, f"{[hex(word) for word in packet]} is not in the setup")
