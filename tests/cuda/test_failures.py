"""The CUDA driver on the made-up libcuda: faults, calls that fail, what a machine lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import drivers
from boards.cuda.library import MadeUpCuda
from drivers.base.contracts import Param
from drivers.base.errors import (
    BadArgument,
    Busy,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.cuda.device import CudaDevice
from drivers.cuda.errors import error_of
from drivers.cuda.facts import arch_of
from drivers.cuda.pinned import pinned
from queues.cuda.kernel_code import KNOWN
from tests.contract.arrays import get
from tests.contract.devices import built
from tests.contract.kernels import combine
from tests.cuda.failing import each_fails_once, failing
from tests.cuda.made_up import CudaWorld, cuda, opened
from tests.cuda.test_device import COUNT, GRID, operands, program
from tests.nv_cubins import needs_nvrtc
from tests.share import part
from tests.support import check

pytestmark = needs_nvrtc


def test_a_fault_names_the_kernel_and_ends_the_context() -> None:
    world = CudaWorld()
    with opened(world) as device:
        kernel, (a, b, _) = program(device), operands(device)
        built_ = device.compute_queue().exec(kernel, [a, b, 64], GRID)  # 64 is no address
        built_.submit()
        with pytest.raises(DeviceFault, match=r"combine.*new process") as caught:
            device.synchronize()
        error = caught.value
        check((error.kind, error.kernel) == ("ILLEGAL_ADDRESS", "combine"), f"{error!r}")
        check("CUDA:0 compute" in error.queue, error.queue)
        uses = (
            lambda: device.alloc(4), device.synchronize, lambda: get(device, a),
            lambda: device.launch(kernel, [a, b, a], 4), device.new_signal,
        )  # fmt: skip
        for use in uses:
            with pytest.raises(DeviceGone, match=r"ILLEGAL_ADDRESS \(700\).*new process"):
                use()
        b.free()
    check(world.made.leaks() == [], f"{world.made.state.violations}")
    check("0x40" in world.made.state.notes[0], f"{world.made.state.notes}")


def test_a_fault_is_noticed_at_closing() -> None:
    world = CudaWorld()
    device = drivers.open("CUDA", world=world, environ={})
    check(isinstance(device, CudaDevice))
    kernel, (a, b, _) = program(device), operands(device)
    device.compute_queue().exec(kernel, [a, b, 64], GRID).submit()
    with pytest.raises(DeviceFault, match="combine"):
        device.close()
    device.close()
    check(world.made.leaks() == [], f"{world.made.state.violations}")


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, OutOfMemory), (3, Unsupported), (46, DeviceError), (100, NotFound), (209, Unsupported),
     (222, Unsupported), (700, DeviceFault), (702, Hang), (709, DeviceGone), (715, DeviceFault),
     (716, DeviceFault), (719, DeviceFault), (802, Busy), (999, DeviceError), (201, DeviceGone),
     (711, Unsupported), (721, DeviceFault), (805, Busy), (806, DeviceError), (807, Busy),
     (808, Busy), (809, Busy), (900, Unsupported), (906, Unsupported), (205, Unsupported),
     (223, Unsupported), (400, BadArgument), (713, BadArgument)],
)  # fmt: skip
def test_each_result_is_an_error_with_what_to_do(code: int, kind: type[DeviceError]) -> None:
    error = error_of("cuCall", code, "NAME", queue="q", kernel="k")
    check(isinstance(error, kind) and error.hint and "cuCall" in str(error), f"{error!r}")
    check(str(code) in str(error) and "NAME" in str(error), f"{error}")
    check("report this call" not in error.hint, "users cause it")


def test_a_result_without_a_name_is_asked_for() -> None:
    with failing(-1) as (world, device):
        world.at, world.code = world.count, 216
        with pytest.raises(DeviceError, match=r"CONTEXT_ALREADY_IN_USE \(216\)"):
            device.alloc(4)
    check(world.made.leaks() == [], f"{world.made.state.violations}")


def test_a_reset_by_another_library_says_what_to_do() -> None:
    """cudaDeviceReset() of torch, for example: the primary context is not there any more."""
    with failing(-1) as (world, device):
        world.at, world.code = world.count, 201
        with pytest.raises(DeviceGone, match=r"INVALID_CONTEXT.*cudaDeviceReset.*open it again"):
            device.alloc(4)
        with pytest.raises(DeviceGone, match="is lost"):
            device.alloc(4)


def life(device: CudaDevice) -> np.ndarray:
    """Everything that a device does, once."""
    (a, b, c), kernel = operands(device), program(device)
    done = device.new_signal()
    device.launch(kernel, [a, b, c], 4)
    queue = device.compute_queue().exec(kernel, [c, b, a], GRID).exec(kernel, [a, b, c], GRID)
    queue.signal(done, 1).exec(kernel, [b, c, a], GRID).exec(kernel, [c, b, Param(0)], GRID)
    recorded = queue.bind()
    recorded.replay([a])
    recorded.replay([b])
    device.copy_queue().wait(done, 1).copy(b, c, 4 * COUNT - 1).signal(done, 2).submit()
    done.wait(2, 5.0)
    shared = pinned(device, 4096)
    shared.free()
    recorded.close()
    return get(device, c)


def test_every_call_fails_once() -> None:
    failed = each_fails_once(life, part, 60)
    check(failed, "some failed")


def test_memory_that_is_full() -> None:
    world = CudaWorld(MadeUpCuda(total_bytes=1 << 20))
    with opened(world) as device:
        held = device.alloc(700 << 10)
        with pytest.raises(OutOfMemory) as caught:
            device.alloc(800 << 10)
        check(caught.value.requested >= 800 << 10, "how much")
        held.free()
        device.alloc(800 << 10)  # what was given back is given to the device
    check(world.made.leaks() == [], f"{world.made.state.violations}")


def test_what_a_machine_must_have() -> None:
    old = CudaWorld(MadeUpCuda(version=11080))
    with pytest.raises(Unsupported, match=r"CUDA 11\.8.*12\.0"), opened(old):
        pass
    none = CudaWorld(MadeUpCuda(devices=0))
    with pytest.raises(NotFound, match="nvidia-smi"), opened(none):
        pass
    few = CudaWorld()
    with pytest.raises(NotFound, match="has 2"):
        drivers.open("CUDA:2", world=few, environ={})
    check(all(world.made.leaks() == [] for world in (old, none, few)), "nothing is left")


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((7, 5), "cuda_sm_75"), ((8, 7), "cuda_sm_86"), ((9, 0), "cuda_sm_90a"),
     ((10, 1), "cuda_sm_100"), ((10, 3), "cuda_sm_103"), ((11, 0), "cuda_sm_110"),
     ((12, 1), "cuda_sm_121")],
)  # fmt: skip
def test_the_architecture_is_one_whose_code_runs(capability: tuple[int, int], arch: str) -> None:
    check(arch_of(*capability, "a GPU") == arch, arch_of(*capability, "a GPU"))


def test_architectures_are_those_of_the_compilers() -> None:
    from compilers.nv.targets import TARGETS

    check(set(KNOWN) == {target.sm for target in TARGETS.values()}, f"{TARGETS}")
    for capability in ((7, 0), (6, 1), (13, 0)):
        with pytest.raises(Unsupported, match="known here"):
            arch_of(*capability, "a GPU")


def test_code_that_is_no_cubin() -> None:
    with cuda() as device:
        good = built(combine(device.limits, COUNT), device)
        image = good.image
        for wrong in (image[:63], image[:-100], b"\x7fELF" + bytes(100), image[:40] + bytes(24)):
            with pytest.raises(MalformedInput, match="compile it anew"):
                device.load(replace(good, image=wrong))
        args = good.resources.args or ()
        for bad in (None, (args[0], args[0]), (replace(args[0], offset=4), *args[1:])):
            with pytest.raises(MalformedInput):
                device.load(replace(good, resources=replace(good.resources, args=bad)))
        other = built(combine(device.limits, COUNT), device)
        with pytest.raises(DeviceError, match="cuModuleGetFunction"):
            device.load(replace(other, name="nothing"))
