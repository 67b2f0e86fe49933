"""Operands that kernels read through the texture units: results, state, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from compilers import toolchains
from compilers.ir import Kernel
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from drivers.base.contracts import Buffer, Param
from drivers.base.errors import BadArgument, DeviceFault, MalformedInput
from drivers.qcom.device import QcomDevice
from drivers.qcom.program import QcomProgram
from queues.qcom import textures
from queues.qcom.textures import Texture
from tests.compilers.lowering import leaf, matmul
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

N = 16
KINDS = ("float32", "float16", "int32")


@contextmanager
def device(chip: str, iface: str = "KGSL") -> Iterator[tuple[QcomDevice, QcomMachine]]:
    """A device whose kernels read operands as images."""
    machine = QcomMachine(chip, iface)
    with opened(machine, iface, {"QCOM_IMAGES": "1"}) as made:
        yield made, machine


class Product:
    """A product of two matrices on a device."""

    def __init__(self, made: QcomDevice, kind: str, n: int = N) -> None:
        numbers = np.random.default_rng(n)
        self.a, self.b = (numbers.integers(-8, 9, (n, n)).astype(kind) for _ in range(2))
        root = matmul(leaf(self.a), leaf(self.b))
        key, leaves = signature([root])
        steps = plan(rebuild(key).roots, Target.of(made.limits, made.arch))
        check(len(steps.steps) == 1, "a product is one kernel")
        self.kernel: Kernel = steps.steps[0].kernel
        self.device, self.out = made, steps.roots[0]
        self.buffers: list[Buffer] = []
        for one in leaves:
            self.buffers.append(made.alloc(len(one.tobytes())))
            made.copy_in(self.buffers[-1], memoryview(one.tobytes()))
        self.buffers += [made.alloc(nbytes) for nbytes in steps.nbytes]
        self.args: Sequence[Buffer] = [self.buffers[value] for value in steps.steps[0].values]
        binary = toolchains.build(self.kernel, "IR3", made.arch, made.limits.features)
        self.program: QcomProgram = made.load(binary)

    @property
    def images(self) -> tuple[Texture, ...]:
        """What the kernel reads so."""
        return self.program.kernel.code.textures

    def result(self) -> np.ndarray:
        """What is in the output."""
        found = np.zeros_like(self.a)
        self.device.copy_out(memoryview(found.reshape(-1).view(np.uint8)), self.buffers[self.out])
        return found

    @property
    def wanted(self) -> np.ndarray:
        """What numpy says; whole numbers below 2048, which float16 holds."""
        return (self.a.astype(np.int64) @ self.b.astype(np.int64)).astype(self.a.dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("chip", "iface"), [("a630", "KGSL"), ("a740", "MSM")])
def test_products_are_numpys(chip: str, iface: str, kind: str) -> None:
    """Launched, by a queue, and from a graph whose operands change."""
    with device(chip, iface) as (made, machine):
        one = Product(made, kind)
        check(one.images, "no operand is read as an image")
        grid = one.kernel.grid
        made.launch(one.program, one.args, grid)
        np.testing.assert_array_equal(one.result(), one.wanted)
        queue = made.compute_queue()
        out, a, b = one.args
        queue.exec(one.program, [out, b, a], (grid, 1, 1)).submit()
        turned = (one.b.astype(np.int64) @ one.a.astype(np.int64)).astype(one.a.dtype)
        np.testing.assert_array_equal(one.result(), turned)
        graph = made.compute_queue().exec(
            one.program, [Param(0), Param(1), Param(2)], (grid, 1, 1)
        ).bind()  # fmt: skip
        for values, wanted in (([out, a, b], one.wanted), ([out, b, a], turned)):
            graph.replay(values)
            np.testing.assert_array_equal(one.result(), wanted)
        graph.close()
    check(not (found := machine.found()), f"violations: {found[:3]}")


def test_without_the_setting_there_is_no_image() -> None:
    machine = QcomMachine("a630")
    with opened(machine) as made:
        check(not Product(made, "float32").images, "images were not asked for")


def test_a_misaligned_operand_is_refused() -> None:
    with device("a630") as (made, machine):
        one = Product(made, "float32")
        out, a, b = (buffer.gpu_va for buffer in one.args)
        wrong, grid = [out, a + 16, b], one.kernel.grid
        with pytest.raises(BadArgument, match=r"argument 1 .* image"):
            made.launch(one.program, wrong, grid)
        with pytest.raises(BadArgument, match=r"argument 1 .* image"):
            made.compute_queue().exec(one.program, wrong, (grid, 1, 1)).submit()
        graph = made.compute_queue().exec(
            one.program, [out, Param(0), b], (grid, 1, 1)
        ).bind()  # fmt: skip
        for _ in range(2):
            with pytest.raises(BadArgument, match=r"argument 1 .* image"):
                graph.replay([a + 16])
        graph.replay([a])
        np.testing.assert_array_equal(one.result(), one.wanted)
        graph.close()
    check(not machine.found(), "nothing wrong ran")


_SAMPLER_PACKETS = 4 + 3 + 2
"""Words of LOAD_STATE6 and SP_CS_TEX_SAMP, and of SP_CS_TEX_COUNT, at the end."""


def _without(words: list[int], part: list[int]) -> list[int]:
    """Packets without some of them."""
    places = [at for at in range(len(words)) if words[at : at + len(part)] == part]
    check(len(places) == 1, "it is there once")
    return words[: places[0]] + words[places[0] + len(part) :]


@pytest.mark.parametrize("chip", ["a630", "a740"])
def test_stale_descriptors_are_found(chip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caches are not notified that the command processor has written."""
    load = textures.load_descriptors
    monkeypatch.setattr(textures, "load_descriptors", lambda chip, va, count: _without(
        load(chip, va, count), textures.words.invalidate(chip)
    ))  # fmt: skip
    with device(chip) as (made, machine):
        one = Product(made, "float32")
        made.launch(one.program, one.args, one.kernel.grid)
        made.synchronize()
        found = machine.found()
    check(any("stale read" in text for text in found), f"{found[:3]}")


def test_descriptors_that_are_not_loaded_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textures, "load_descriptors", lambda chip, va, count: [])
    with device("a630") as (made, _):
        one = Product(made, "float32")
        made.launch(one.program, one.args, one.kernel.grid)
        with pytest.raises(DeviceFault):
            made.synchronize()


def test_textures_that_the_configuration_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(textures, "config", lambda count: 0)
    with device("a630") as (made, machine):
        one = Product(made, "float32")
        made.launch(one.program, one.args, one.kernel.grid)
        made.synchronize()
        found = machine.found()
    check(found and all("texture beyond NTEX" in text for text in found), f"{found[:3]}")


def test_samplers_that_are_counted_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    load = textures.load_descriptors
    monkeypatch.setattr(
        textures, "load_descriptors",
        lambda chip, va, count: load(chip, va, count)[:-_SAMPLER_PACKETS],
    )  # fmt: skip
    with device("a740") as (made, machine):
        one = Product(made, "float32")
        made.launch(one.program, one.args, one.kernel.grid)
        made.synchronize()
        found = machine.found()
    check(any("samplers that are not loaded" in text for text in found), f"{found[:3]}")


def test_what_is_behind_the_last_texel_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half of its texels, half of the operand is 0: bounds come from the descriptor."""
    whole = textures.descriptor
    monkeypatch.setattr(textures, "descriptor", lambda one: whole(
        Texture(one.param, one.item_bytes, one.texels // (2 if one.param == 1 else 1))
    ))  # fmt: skip
    with device("a630") as (made, _):
        one = Product(made, "float32")
        made.launch(one.program, one.args, one.kernel.grid)
        found = one.result()
    np.testing.assert_array_equal(found[: N // 2], one.wanted[: N // 2])
    check(not found[N // 2 :].any(), "rows behind the end")


def test_words_of_a_descriptor() -> None:
    """# src: Mesa 25.0.7, fdl6_buffer_view_init, a6xx.xml A6XX_TEX_CONST, by hand"""
    found = textures.descriptor(Texture(0, 4, (3 << 15) + 5))
    swizzle, format_ = 0x6880, 0x83 << 22
    check(found == [format_ | swizzle, 5 | 3 << 15, 4 << 29 | 1 << 4, *[0] * 13], f"{found}")


@pytest.mark.parametrize("wrong", [
    [Texture(2, 4, 1)], [Texture(0, 8, 1)], [Texture(0, 4, 0)], [Texture(0, 4, (1 << 27) + 1)],
    [Texture(1, 4, 1)], [Texture(0, 4, 1), Texture(0, 4, 1)],
])  # fmt: skip
def test_textures_that_no_kernel_has(wrong: list[Texture]) -> None:
    with pytest.raises(MalformedInput):
        textures.check("k", wrong, [8, 4])
    textures.check("k", [Texture(0, 4, 1)], [8, 4])
