"""Inspection of an unbound GPU that no process uses: claimed, read, given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from drivers.amd.chips import BUS_ADDRESS_BITS
from drivers.amd.claim_chips import known
from drivers.amd.pci.boot import identify
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.handover import recover
from drivers.amd.pci.opening import chip_of
from drivers.bare.trace import TraceFile
from drivers.base.contracts import World
from drivers.base.errors import NotFound, Unsupported
from drivers.base.interrupts import deferred
from drivers.base.pci import StateStore
from drivers.base.undo import whole
from drivers.claim.claim import claim
from drivers.pci.functions import PciFunction, gpus, listing
from drivers.pci.session import open_session

FREE: Final = ("", "vfio-pci")
"""Drivers of a function that counts as unbound."""


def free_gpus(world: World) -> list[PciFunction]:
    """GPUs that are known here and have no kernel driver."""
    return [one for one in gpus(world) if known(one) and one.driver in FREE]


def pick(world: World, address: str | None) -> PciFunction:
    """The GPU at an address, or the only one there is.

    Raises: NotFound, Unsupported; without an address what a function that cannot be read gave.
    """
    functions, unread = listing(world)
    every = [one for one in functions if known(one)]
    if address is None and unread:
        raise unread[0].error.named("which GPU is the only one").advised("--address names one")
    if address is not None:
        every = [one for one in every if one.address == address]
    if len(every) != 1:
        shows = "python -m drivers.amd.probe --iface PCI shows what is there"
        if not every:
            there = "on PCI" if address is None else f"at {address}"
            raise NotFound(f"no AMD GPU that is known here is {there}", hint=shows)
        raise NotFound(
            f"several AMD GPUs are on PCI: {', '.join(one.address for one in every)}",
            hint=f"--address names one; {shows}",
        )
    if every[0].driver not in FREE:
        raise Unsupported(
            f"{every[0].address} belongs to its kernel driver {every[0].driver}",
            hint="Reading it would unbind it: read it through that driver (python -m "
            "drivers.amd.smi), or unbind it first",
        )
    return every[0]


@contextmanager
def looked_at(
    world: World, state: StateStore | None, function: PciFunction, trace: str | None = None
) -> Iterator[BareGpu]:
    """Claim a GPU and read its discovery table; everything is given back at the end.

    `state` is where claims are; None: this user's own place, for this claim alone. `trace` is a
    file for every access. Raises: Busy with the pid of whoever uses it, Refused.
    """
    gpu, closing = whole(
        partial(_look, world, state, function, trace), lambda looked: looked[1].close()
    )
    try:
        yield gpu
    finally:
        with deferred():
            closing.close()


def _look(
    world: World, state: StateStore | None, function: PciFunction, trace: str | None
) -> tuple[BareGpu, ExitStack]:
    with ExitStack() as stack:
        file = None if trace is None else stack.enter_context(TraceFile(trace, world))
        claimed = stack.enter_context(claim(world, state, function.address, known, recover=recover))
        session = stack.enter_context(open_session(world, claimed, address_bits=BUS_ADDRESS_BITS))
        gpu = identify(session, chip_of(function), function.device, file)
        return gpu, stack.pop_all()
