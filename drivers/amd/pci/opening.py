"""Opening an unbound GPU: firmware judged, claim, session, boot, address space."""

from __future__ import annotations

from functools import partial
from typing import Final

from drivers.amd.chips import BUS_ADDRESS_BITS, MANIFEST, Chip, chip_of_device
from drivers.amd.claim_chips import known
from drivers.amd.firmware.assemble import FirmwareSet, assemble
from drivers.amd.pci import boot, handover
from drivers.amd.pci.iface import PciIface
from drivers.amd.pci.page_table import page_table
from drivers.amd.pci.process import VMID, Process
from drivers.amd.pci.survey import NEEDS
from drivers.bare.reach import REACHES, judge
from drivers.bare.trace import TraceFile
from drivers.base.contracts import World
from drivers.base.errors import NotFound, Unsupported
from drivers.base.pci import StateStore
from drivers.base.undo import Undo
from drivers.choice import Choice
from drivers.claim.claim import as_it_is, claim
from drivers.claim.lost import watch
from drivers.claim.record import Method
from drivers.firmware import chosen_manifest, load
from drivers.machine.text import hex_number
from drivers.pci.bars import enlarge
from drivers.pci.functions import PciFunction, listing, look_at
from drivers.pci.session import open_session

_REVISION_BITS: Final = 8


def open_pci(world: World, choice: Choice, state: StateStore | None) -> PciIface:
    """Claim and boot a GPU; when that fails halfway, it goes back to whom it was taken from.

    Raises: NotFound, Refused with every reason, Busy with the owner's pid, FirmwareRejected,
    DeviceTimeout with the boot step and the register.
    """
    function = chosen(world, choice.index)
    chip = chip_of(function)
    firmware = firmware_of(world, choice, function, chip)
    reach = REACHES[choice.dma]
    with Undo() as undo:
        trace = open_trace(choice, world)
        if trace is not None:
            undo.add(trace.close)
        fits = partial(judge, world, reach, NEEDS)
        claimed = claim(world, state, function.address, known, reach.method, fits, handover.recover)
        undo.add(claimed.close)
        if claimed.method is Method.BARS:  # VFIO has it otherwise, and the kernel refuses
            enlarge(world, look_at(world, function.address), NEEDS.vram_bar)
        session = open_session(world, claimed, reach.grade, address_bits=BUS_ADDRESS_BITS)
        undo.add(session.close)
        gpu = boot.identify(session, chip, function.device, trace)
        claimed.recover = as_it_is
        closing = [] if trace is None else [trace.close]
        give_back = partial(handover.give_back, gpu, claimed, closing)
        undo.hand_over(give_back)
        report = boot.start(gpu, firmware)
        undo.add(partial(boot.leave, gpu))
        table = page_table(gpu, VMID)
        iface = PciIface(gpu, Process(gpu), table, give_back, str(report))
        watch(iface, claimed, give_back)
        iface.start()
    return iface


def open_trace(choice: Choice, world: World) -> TraceFile | None:
    """Where register accesses are written, where the user wants that; each GPU has a file."""
    if choice.trace is None:
        return None
    return TraceFile(f"{choice.trace}.{choice.index}" if choice.index else choice.trace, world)


def chosen(world: World, index: int) -> PciFunction:
    """The GPU with this number among those on PCI that are known.

    Raises: NotFound; MalformedInput and others where a function in front of it cannot be read: it
    may be a GPU, and a number must never lead to another one.
    """
    functions, unread = listing(world)
    found = [function for function in functions if known(function)]
    for other in unread:
        if index >= len(found) or other.address < found[index].address:
            raise other.error.named(f"AMD:{index} on PCI")
    if index < len(found):
        return found[index]
    raise NotFound(
        f"there is no AMD:{index} on PCI: {len(found)} GPUs there are known",
        hint="python -m drivers.amd.probe --iface PCI shows them",
    )


def chip_of(function: PciFunction) -> Chip:
    """The chip of a known function. Raises: Unsupported."""
    chip = chip_of_device(function.device)
    if chip is None:
        raise Unsupported(f"{function} is not a chip that is booted", hint="Use AMD_IFACE=KFD")
    return chip


def firmware_of(world: World, choice: Choice, function: PciFunction, chip: Chip) -> FirmwareSet:
    """Everything the chip needs, every byte judged before the first register is written."""
    manifest = chosen_manifest(world, choice.firmware_manifest, MANIFEST)
    images = load(
        world,
        manifest,
        chip.name,
        device=function.device,
        revision=hex_number(world, f"{function.folder}/revision", _REVISION_BITS),
        folder=choice.firmware_dir,
        named=choice.firmware_files,
    )
    return assemble(images, function.device)
