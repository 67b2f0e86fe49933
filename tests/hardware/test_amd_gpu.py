"""An AMD GPU of this machine: every engine, tensor programs, opening again, faults, hangs.

Through KFD where there is /dev/kfd. AMD_IFACE=PCI in the environment is the consent to take a GPU
from its kernel driver, and to boot it; without it nothing of the kind happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import tensor as xp
from boards.amd.cp.engines import Engines
from boards.amd.hardware import Options
from boards.amd.machine import open_board
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.front import front_of
from compilers.amd.smoke import firmware
from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.amd.tools.smoke import smoke
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceFault, Hang
from drivers.base.pci import StateStore
from drivers.choice import Choice, choose
from drivers.world.linux import LinuxWorld
from tensor import engine
from tests.boards.driver_harness import add, kernel
from tests.boards.test_driver_exceptions import patched
from tests.boards.test_driver_faults import ENDLESS, still_works
from tests.support import check

Place = tuple[World, Choice, StateStore | None]
HANG_S = 2.0
ROUNDS = 5
LANES = 64
VRAM_BYTES = 256 << 20
MAX_STEPS = 20_000
NOWHERE = 0x7000_0000_0000


def this_machine() -> Place:
    """Raises: Skipped, with what to do."""
    choice = choose({**os.environ, "DEV": "AMD"})
    if choice.iface != "PCI" and not os.path.exists("/dev/kfd"):
        pytest.skip("no /dev/kfd; AMD_IFACE=PCI lets the tests take a GPU over PCI")
    return LinuxWorld(), choice, None


def of_board(iface: str, dma: str) -> Place:
    """A board on which an endless kernel is known for one soon."""
    options = Options(
        vram_bytes=VRAM_BYTES, engines=lambda host: Engines(host, max_steps=MAX_STEPS)
    )
    if iface == "KFD":
        front = front_of(open_board("gfx1100", vram_bytes=VRAM_BYTES, options=options), {})
    else:
        machine = MachineOptions(vram_bytes=VRAM_BYTES, iommu=not dma, strictness=options)
        environ = {"AMD_IFACE": "PCI", "AMD_DMA": dma}
        front = front_of(open_pci_board("gfx1100", options=machine), environ)
    return front.world, choose({**front.environ, "DEV": "AMD"}), front.state


@pytest.fixture(params=["this machine", "KFD board", "PCI board", "VRAM board"], scope="module")
def place(request: pytest.FixtureRequest) -> Place:
    """The machine; and boards, which show that these tests are fit to be run on one."""
    if request.param == "this machine":
        return this_machine()
    return of_board(
        "KFD" if request.param == "KFD board" else "PCI",
        "vram" if request.param == "VRAM board" else "",
    )


@contextmanager
def opened(place: Place) -> Iterator[AmdDevice]:
    world, choice, state = place
    try:
        device = open_amd(world, choice, state=state)
    except DeviceError as error:
        pytest.fail(f"{type(error).__name__}: {error}")
    with device:
        yield device


def test_every_engine(place: Place) -> None:
    world, choice, state = place
    outcomes = list(smoke(world, choice, firmware, state))
    for outcome in outcomes:
        print(outcome)
    check(outcomes and all(outcome.ok for outcome in outcomes), str(outcomes))


def test_tensor_programs_equal_numpy(place: Place) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64)).astype(np.float32)
    programs: list[tuple[Callable[[xp.Tensor, xp.Tensor], xp.Tensor], np.ndarray]] = [
        (lambda x, y: x @ y, a @ b),
        (lambda x, y: xp.sum(x * y, axis=1), (a * b).sum(axis=1)),
        (lambda x, y: xp.exp(x) + y, np.exp(a) + b),
        (lambda x, y: xp.sort(x, axis=1), np.sort(a, axis=1)),
    ]
    with opened(place) as device, engine.adopted("AMD", device):
        for program, expected in programs:
            x, y = xp.asarray(a, device="AMD"), xp.asarray(b, device="AMD")
            np.testing.assert_allclose(program(x, y).numpy(), expected, rtol=2e-5, atol=2e-5)


def test_opened_again_and_again(place: Place) -> None:
    for _ in range(ROUNDS):
        with opened(place) as device:
            still_works(device, device.load(add(device.arch)))


def test_a_fault_is_named_and_survived(place: Place) -> None:
    with opened(place) as device:
        program = device.load(add(device.arch))
        x = device.alloc(256)
        device.launch(program, [x, NOWHERE, x, LANES], 1)
        with pytest.raises(DeviceFault, match=r"at 0x7000.*in no buffer") as fault:
            device.synchronize()
        print(fault.value)
        still_works(device, program)


def test_an_illegal_instruction_is_named_and_survived(place: Place) -> None:
    """Through KFD by the driver's own trap handler, which no silicon has run; else by interrupt."""
    with opened(place) as device:
        x = device.alloc(256)
        device.launch(device.load(patched(device.arch, 0xFFFF_FFFF)), [x, x, x, LANES], 1)
        with pytest.raises(DeviceFault, match="illegal instruction") as fault:
            device.synchronize()
        print(fault.value)
        still_works(device, device.load(add(device.arch)))


def test_a_hang_is_told_and_survived(place: Place) -> None:
    world, choice, state = place
    with opened((world, replace(choice, hang_s=HANG_S), state)) as device:
        endless = device.load(kernel(ENDLESS, device.arch, 64))
        device.launch(endless, [device.alloc(256)], 1)
        with pytest.raises(Hang, match="made no progress") as hang:
            device.synchronize()
        print(hang.value)
        still_works(device, device.load(add(device.arch)))
