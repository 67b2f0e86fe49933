"""Checks below the driver: sysfs, config space, BARs, VFIO, giving back, with our own PCI layer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from drivers.amd.claim_chips import known
from drivers.base.errors import BadArgument, DeviceError
from drivers.claim.claim import claim
from drivers.claim.place import open_state
from drivers.claim.record import Method
from drivers.pci.bars import enlarge, resize_bar
from drivers.pci.dma import Grade
from drivers.pci.functions import PciFunction, gpus, look_at
from drivers.pci.session import open_session
from drivers.world.linux import LinuxWorld

FIRST_DRIVER = os.environ.get("VM_FIRST_DRIVER", "uio_pci_generic")
"""The real amdgpu, or what the guest's init has bound in its place."""
VRAM, REGISTERS = 0, 5
DISCOVERY_SIGNATURE = 0x28211407
DISCOVERY_FROM_END = 64 << 10
"""# src: amdgpu discovery.h BINARY_SIGNATURE; amdgpu_discovery.h DISCOVERY_TMR_OFFSET"""
COMMAND, MASTER = 4, 4
"""# src: linux/pci_regs.h PCI_COMMAND, PCI_COMMAND_MASTER"""
_COMPLAINT = re.compile(r"BUG:|WARNING:|Oops|Call Trace|hung task|irq \d+: nobody cared").search


class Wrong(Exception):
    """Something is not as it should be."""


def expect(what: str, got: object, wanted: object) -> None:
    """Compare. Raises: Wrong."""
    if got != wanted:
        raise Wrong(f"{what} is {got!r}, wanted {wanted!r}")


def gpu() -> PciFunction:
    """The one GPU of this machine."""
    found = [function for function in gpus(LinuxWorld()) if known(function)]
    expect("the number of GPUs that we know", len(found), 1)
    return found[0]


def driver() -> str:
    """The kernel driver that has the GPU; "" for none."""
    link = Path(gpu().folder, "driver")
    return link.resolve().name if link.exists() else ""


def is_master() -> bool:
    """Whether the GPU may do DMA, as the kernel's own file shows it."""
    config = Path(gpu().folder, "config").read_bytes()
    return bool(config[COMMAND] & MASTER)


def seen() -> str:
    """The kernel has found the GPU and given its BARs room; our reading agrees with its files."""
    function = gpu()
    for number, resource in enumerate(function.resources[:6]):
        if resource.is_memory:
            size = Path(function.folder, f"resource{number}").stat().st_size
            expect(f"the size of BAR {number}", resource.nbytes, size)
    sizes = [f"{r.nbytes >> 10} KiB" for r in function.resources[:6] if r.is_memory]
    return f"{function}; BARs of {', '.join(sizes)}"


def config_space() -> str:
    """What the kernel shows of config space is what the board has."""
    function = gpu()
    raw = Path(function.folder, "config").read_bytes()
    expect("the vendor", int.from_bytes(raw[:2], "little"), 0x1002)
    expect("the device", int.from_bytes(raw[2:4], "little"), function.device)
    kinds, at = [], raw[0x34]
    for _ in range(48):
        if not at:
            break
        kinds.append(raw[at])
        at = raw[at + 1]
    if 5 not in kinds or 0x10 not in kinds:
        raise Wrong(f"no MSI or no PCI Express among the capabilities {kinds}")
    return f"{len(raw)} bytes, capabilities {[hex(kind) for kind in kinds]}"


def held_at_first() -> str:
    """A kernel driver has the GPU before we come."""
    expect("the driver", driver(), FIRST_DRIVER)
    return FIRST_DRIVER


def bars_claimed_and_given_back() -> str:
    """Without an IOMMU: BARs by resourceN, no DMA at all, then back to the driver."""
    function, world = gpu(), LinuxWorld()
    with claim(world, open_state(os.environ), function.address, known) as claimed:
        expect("the method", claimed.method, Method.BARS)
        expect("the driver while it is ours", driver(), "")
        _no_larger_bar(world, function)
        session = open_session(world, claimed, Grade.NONE, address_bits=44)
        try:
            vram = session.bar(VRAM)
            expect("VRAM", vram.nbytes, function.resources[VRAM].nbytes)
            vram.write(0x123456, b"written by the guest")
            expect("VRAM read back", vram.read(0x123456, 20), b"written by the guest")
            table = vram.read32(vram.nbytes - DISCOVERY_FROM_END)
            expect("the discovery binary's signature", table, DISCOVERY_SIGNATURE)
            if session.bar(REGISTERS).read32(0x378C) != vram.nbytes >> 20:
                raise Wrong("RCC_CONFIG_MEMSIZE is not VRAM's size in MiB")
            expect("bus mastering", is_master(), False)
        finally:
            session.close()
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return "VRAM, registers, no bus mastering; bound again"


def _no_larger_bar(world: LinuxWorld, function: PciFunction) -> None:
    """The kernel offers the size that VRAM has: nothing is tried, another size is refused."""
    now = look_at(world, function.address)
    nbytes = now.resources[VRAM].nbytes
    enlarged = enlarge(world, now, VRAM)
    expect("VRAM after enlarging", (enlarged.nbytes, enlarged.why), (nbytes, ""))
    try:
        resize_bar(world, now, VRAM, 2 * nbytes)
    except BadArgument as error:
        expect("the sizes that are told", f"{nbytes >> 20} MiB" in str(error), True)
    else:
        raise Wrong("a size that is not offered was taken")


def dma_by_physical_address() -> str:
    """Without an IOMMU, when it is asked for: locked pages, bus mastering for as long as needed."""
    function, world = gpu(), LinuxWorld()
    with claim(world, open_state(os.environ), function.address, known) as claimed:
        session = open_session(world, claimed, Grade.PHYSICAL, address_bits=44)
        try:
            expect("bus mastering before there is memory", is_master(), False)
            pieces = session.dma.alloc(4 << 20).pieces
            expect("the bytes given", sum(nbytes for _, nbytes in pieces), 4 << 20)
            expect("bus mastering", is_master(), True)
        finally:
            session.close()
        expect("bus mastering after the session", is_master(), False)
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return f"4 MiB in {len(pieces)} pieces; bus mastering off again; bound again"


def dma_through_vfio() -> str:
    """With an IOMMU: memory by IOVA, an event for MSI, then back to the driver."""
    function, world = gpu(), LinuxWorld()
    with claim(world, open_state(os.environ), function.address, known) as claimed:
        expect("the method", claimed.method, Method.VFIO)
        expect("the driver while it is ours", driver(), "vfio-pci")
        session = open_session(world, claimed, Grade.IOMMU, address_bits=44)
        try:
            expect("bus mastering before there is memory", is_master(), False)
            vram = session.bar(VRAM)
            vram.write(0x200000, b"over VFIO")
            expect("VRAM read back", vram.read(0x200000, 9), b"over VFIO")
            memory = session.dma.alloc(1 << 20)
            pieces = memory.pieces
            expect("the bytes mapped", sum(nbytes for _, nbytes in pieces), 1 << 20)
            expect("bus mastering", is_master(), True)
            session.listen()
            expect("interrupts", session.interrupts, True)
            expect("an interrupt that nobody sent", session.wait_interrupt(0.01), False)
            memory.close()
        finally:
            session.close()
        expect("bus mastering after the session", is_master(), False)
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return f"1 MiB at IOVA {pieces[0][0]:#x} in {len(pieces)} pieces, MSI armed; bound again"


def killed_and_restored() -> str:
    """A process that has the GPU dies by SIGKILL; doctor --restore gives the GPU back."""
    words = [sys.executable, os.path.join(os.path.dirname(__file__), "holder.py")]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    if holder.stdout is None or holder.stdout.readline() != "held\n":
        raise Wrong("the holder did not come up")
    function, world = gpu(), LinuxWorld()
    try:
        claim(world, open_state(os.environ), function.address, known).close()
    except DeviceError as error:
        busy = f"{type(error).__name__}: {error}"
    else:
        raise Wrong("two processes claimed one GPU")
    if str(holder.pid) not in busy:
        raise Wrong(f"who has it is not said: {busy}")
    holder.send_signal(signal.SIGKILL)
    holder.wait(10)
    left = driver()
    if left == FIRST_DRIVER:
        raise Wrong("the kernel gave it back by itself: nothing is tested")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "drivers.doctor", "--restore"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    print(done.stdout + done.stderr)
    expect("the status of --restore", done.returncode, 0)
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    expect("its driver_override", look_at(world, function.address).override, "")
    return f"left with {left or 'no driver'}, restored in {time.monotonic() - began:.1f} s"


def kernel_without_complaints() -> str:
    """The kernel's log tells of no bug, warning or hang, whatever was done to it."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True, check=True, timeout=10)
    lines = done.stdout.splitlines()
    expect("what the kernel complains of", [line for line in lines if _COMPLAINT(line)], [])
    expect("whether it says anything", len(lines) > 10, True)
    return f"{len(lines)} lines of its log"
