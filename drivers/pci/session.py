"""A claimed function at work: BARs, config space, DMA and interrupts, all given back by `close`.

Bus mastering is off when a session opens, is switched on by the first memory that the device may
reach, and is off again when it closes; a read-back proves each.
"""

from __future__ import annotations

import atexit
import os
from functools import partial
from typing import Protocol, Self

from drivers.base.contracts import Region, World
from drivers.base.deadline import Clock
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree, during
from drivers.base.turns import Jobs
from drivers.base.undo import Undo, run_all, whole
from drivers.pci.aspm import keep_awake
from drivers.pci.bars_session import open_bars
from drivers.pci.command import set_command
from drivers.pci.config import SPACE_BYTES
from drivers.pci.dma import Dma, Grade, Iommu
from drivers.pci.functions import PciFunction, look_at
from drivers.pci.vfio_session import open_vfio

_VFIO = "vfio"
_LONGEST_NAP_S = 1e-3
_SIZES = (1, 2, 4)


class Claimed(Protocol):
    """What a session asks of a claim."""

    @property
    def address(self) -> str:
        """The function's PCI address."""

    @property
    def method(self) -> str:
        """How it was taken: "vfio" or "bars"."""


class Access(Protocol):
    """A function through VFIO, or through its own files."""

    address: str

    @property
    def iommu(self) -> Iommu | None:
        """Its address space, None without an IOMMU."""

    def map_bar(self, number: int, *, combine: bool) -> Region: ...
    def config_read(self, off: int, nbytes: int) -> int: ...
    def config_write(self, off: int, nbytes: int, value: int) -> None: ...
    def reset(self) -> None: ...
    def after_reset(self) -> None: ...
    def arm(self) -> bool: ...
    def wait_interrupt(self, timeout_s: float) -> bool: ...
    def check_unviewed(self) -> None: ...
    def close(self) -> None: ...


class PciSession:
    """One open function. `open_session` makes it; close it before the claim."""

    def __init__(
        self, world: World, access: Access, grade: Grade, address_bits: int,
        clock: Clock | None = None, jobs: Jobs | None = None,
    ) -> None:  # fmt: skip
        self.world, self._access, self.address = world, access, access.address
        self.clock: Clock = clock or world
        """Time as the function has it: behind a bus that queues writes, sleeping sends them."""
        self.jobs = jobs or Jobs()
        """Stores that take several calls: each behind what it has to follow."""
        self.interrupts = False
        self.dma = Dma(world, grade, access.iommu, address_bits, self._first_dma)
        self._bars: dict[int, tuple[Region, bool]] = {}
        self._master = False
        self._pid, self._open = os.getpid(), True

    @property
    def is_usable(self) -> bool:
        """Whether it was not closed yet."""
        return self._open

    def _usable(self) -> None:
        if not self._open:
            raise UseAfterFree(f"the session of {self.address} is closed", hint="open it again")

    def bar(self, number: int, *, combine: bool = False) -> Region:
        """The whole of a memory BAR, mapped once, closed with the session.

        Raises: BadArgument when it is mapped already with other caching; Unsupported, Denied.
        """
        self._usable()
        if number not in self._bars:
            with during(f"map BAR {number}"):
                region = self._access.map_bar(number, combine=combine)
            self._bars[number] = region, combine
        region, combined = self._bars[number]
        if combined != combine:
            kind = "with" if combined else "without"
            raise BadArgument(f"BAR {number} of {self.address} is mapped {kind} write combining")
        return region

    def config_read(self, off: int, nbytes: int) -> int:
        """A number of 1, 2 or 4 aligned bytes in config space."""
        self._config_at(off, nbytes)
        return self._access.config_read(off, nbytes)

    def config_write(self, off: int, nbytes: int, value: int) -> None:
        """A number of 1, 2 or 4 aligned bytes into config space. COMMAND is the session's own."""
        self._config_at(off, nbytes)
        if off <= 5 and off + nbytes > 4:
            raise BadArgument("COMMAND is written by the session alone", hint="see `bus_master`")
        self._access.config_write(off, nbytes, value)

    def _config_at(self, off: int, nbytes: int) -> None:
        self._usable()
        if nbytes not in _SIZES or off % nbytes or not 0 <= off <= SPACE_BYTES - nbytes:
            raise BadArgument(f"config space has no {nbytes} aligned bytes at {off:#x}")

    def _first_dma(self) -> None:
        if not self._master:
            self.bus_master(True)

    def bus_master(self, on: bool) -> None:
        """Let the device do DMA, or hold it back for a while (around a reset of its own).

        Raises: Unsupported when nothing was ever given to it; DeviceGone.
        """
        self._usable()
        if on and self.dma.grade is Grade.NONE:
            raise Unsupported("bus mastering stays off without an IOMMU", hint="see docs/pci.md")
        with during(f"bus mastering {'on' if on else 'off'}"), Undo() as undo:
            undo.add(partial(set_command, self._access, master=False))
            set_command(self._access, master=on)
        self._master = on

    def reset(self) -> None:
        """Reset the function through the kernel. Raises: Unsupported where it offers none."""
        self._usable()
        self._access.reset()
        set_command(self._access, master=self._master)

    def after_reset(self) -> None:
        """The function reset itself: base addresses, COMMAND and interrupts as they were.

        Bus mastering is on again if the device has memory of the host.
        """
        self._usable()
        self._access.after_reset()
        keep_awake(self._access, vfio=self._access.iommu is not None)
        self.bus_master(self.dma.live > 0)

    def wait_interrupt(self, timeout_s: float) -> bool:
        """Whether an interrupt came within the time; without interrupts a short sleep, False."""
        self._usable()
        if self.interrupts:
            return self._access.wait_interrupt(timeout_s)
        self.clock.sleep(min(max(timeout_s, 0.0), _LONGEST_NAP_S))
        return False

    def listen(self) -> None:
        """Arm interrupts where the device may send them: they are DMA writes. Once is enough."""
        if self.dma.grade is Grade.IOMMU and not self.interrupts:
            self.interrupts = self._access.arm()

    def close(self) -> None:
        """DMA off first, then mappings, then the device. A second close does nothing.

        A process that was forked from the owner closes nothing. Raises: the first error; Busy
        while a BAR is viewed, or physical memory reached, and then it may be closed again.
        """
        if not self._open or os.getpid() != self._pid:
            return
        isolated: list[bool] = []
        with during("close the session"):
            run_all(
                [
                    partial(self._isolate, isolated),
                    lambda: self.dma.close(isolated=bool(isolated)),
                    *(region.close for region, _ in self._bars.values()),
                    partial(self._leave, isolated),
                ]
            )

    def _isolate(self, done: list[bool]) -> None:
        """After this the device reaches nothing. One that reads all ones may come back."""
        set_command(self._access, master=False)
        done.append(True)
        self._master = False

    def _leave(self, isolated: list[bool]) -> None:
        """Close the device; with its address space everything is unmapped.

        The session stays open, to be closed again, while a device may write to physical memory.
        """
        if self.dma.grade is Grade.PHYSICAL and not isolated and self.dma.live:
            return
        self._access.check_unviewed()
        run_all([self._access.close, self.dma.abandon, self._ended])

    def _ended(self) -> None:
        self._open = False
        self._bars.clear()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def default_grade(claim: Claimed) -> Grade:
    """IOMMU where there is one, else no DMA at all."""
    return Grade.IOMMU if claim.method == _VFIO else Grade.NONE


def open_session(
    world: World, claim: Claimed, grade: Grade | None = None, *, address_bits: int
) -> PciSession:
    """Open a claimed function, whose bus addresses have `address_bits` bits.

    Raises: Unsupported when the grade does not fit how it was taken.
    """
    chosen = default_grade(claim) if grade is None else grade
    function = look_at(world, claim.address)
    check_grade(function, claim.method, chosen)
    opened = partial(_opened, world, function, claim.method, chosen, address_bits)
    return whole(opened, PciSession.close)


def _opened(
    world: World, function: PciFunction, method: str, grade: Grade, address_bits: int
) -> PciSession:
    with during("open the session"), Undo() as undo:
        access: Access = (
            open_vfio(world, function) if method == _VFIO else open_bars(world, function)
        )
        undo.add(access.close)
        session = PciSession(world, access, grade, address_bits)
        set_command(access, master=False)
        keep_awake(access, vfio=method == _VFIO)
        session.listen()
        atexit.register(session.close)
    return session


def check_grade(function: PciFunction, method: str, grade: Grade) -> None:
    """Whether a function taken so can have a grade. Raises: Unsupported, which says why not."""
    if grade is Grade.IOMMU and method != _VFIO:
        raise Unsupported(
            f"{function.address} was taken without an IOMMU",
            hint="switch the IOMMU (VT-d) on, load vfio-pci, and open it again",
        )
    if grade is Grade.PHYSICAL and (method == _VFIO or function.iommu_group):
        raise Unsupported(
            f"{function.address} is behind an IOMMU, which knows no physical addresses",
            hint="leave UNBOUND_DMA out: the IOMMU does better",
        )
