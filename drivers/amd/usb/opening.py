"""Opening a GPU behind a bridge: enclosure, lock, firmware judged, link, boot, address space."""

from __future__ import annotations

import atexit
import os
from functools import partial
from typing import Final

from drivers.amd.chips import BUS_ADDRESS_BITS, MANIFEST, Chip, chip_of_device
from drivers.amd.firmware.assemble import FirmwareSet, assemble
from drivers.amd.pci import boot
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hardware_queue import DOORBELL_BAR
from drivers.amd.pci.iface import PciIface
from drivers.amd.pci.page_table import page_table
from drivers.amd.pci.process import VMID, Process
from drivers.amd.usb.copied import CopiedMemory
from drivers.amd.usb.prompt import Prompt
from drivers.amd.usb.staging import one_stager
from drivers.bare.mirror import Mirrors
from drivers.base.contracts import World
from drivers.base.errors import NotFound, Unsupported, during
from drivers.base.pci import Lock, StateStore
from drivers.base.turns import Jobs
from drivers.base.undo import Step, Undo, run_all
from drivers.choice import Choice
from drivers.claim.place import state_for
from drivers.firmware import chosen_manifest, load
from drivers.pci.aspm import keep_awake
from drivers.pci.command import set_command
from drivers.pci.dma import Grade
from drivers.pci.session import PciSession
from drivers.usb.asm24.bar_region import BarRegion
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.enclosures import Enclosure, enclosures
from drivers.usb.asm24.function import BridgedFunction, open_function

_INTERFACE: Final = 0


def open_usb(world: World, choice: Choice, state: StateStore | None) -> PciIface:
    """Lock, power and boot the GPU in an enclosure; a failure undoes what was done.

    Raises: NotFound, Unsupported and Denied with the next step, Busy with the owner's pid,
    FirmwareRejected, DeviceTimeout with the boot step and the register.
    """
    enclosure = chosen(world, choice.index)
    with Undo() as undo:
        with state_for(os.environ, state) as places:
            lock = places.lock(f"usb-{enclosure.identity}")
        undo.add(lock.release)
        usb = world.usb(enclosure.bus, enclosure.number, _INTERFACE)
        undo.add(usb.close)
        with during("find the card"):
            function = open_function(Bridge(usb, world), {DOORBELL_BAR})
        undo.hand_over(partial(run_all, [function.close, lock.release]))
        chip = _chip(function)
        firmware = _firmware(world, choice, function, chip)
        bridge = function.bridge
        session = PciSession(
            world, function, Grade.NONE, BUS_ADDRESS_BITS, bridge, Jobs(bridge.lock)
        )
        give_back = _giving_back(session, lock)
        undo.hand_over(give_back)
        with during("keep the link awake"):
            keep_awake(function)
        with during("identify the card"):
            gpu = boot.identify(session, chip, function.card.device)
        report = boot.start(gpu, firmware)
        undo.add(partial(boot.leave, gpu))
        with during("make the address space"):
            iface = _iface(gpu, function, give_back, f"{report}; {function.bridge.trips} trips")
            iface.start()
    return iface


def _giving_back(session: PciSession, lock: Lock) -> Step:
    """What ends the use of the enclosure: called by the last close, else at exit."""

    def give_back() -> None:
        atexit.unregister(give_back)
        run_all([session.close, lock.release])

    atexit.register(give_back)
    return give_back


def _iface(gpu: BareGpu, function: BridgedFunction, give_back: Step, opened: str) -> PciIface:
    """Memory that the host has copies of: every flush writes them first."""
    mirrors = Mirrors(gpu.vram, function.bridge.lock)
    registers = gpu.session.bar(boot.BAR_REGISTERS)
    if not isinstance(registers, BarRegion):
        raise Unsupported(f"{registers!r} is not behind a bridge", hint="use AMD_IFACE=PCI")
    gpu.flush_writes = Prompt(mirrors, registers).flush_writes
    set_command(function, master=True)  # it reaches the bridge's memory, and nothing of the host
    remote = CopiedMemory(mirrors, function.bridge)
    iface = PciIface(
        gpu, Process(gpu), page_table(gpu, VMID), give_back, opened,
        name="USB", mirrors=mirrors, remote=remote,
    )  # fmt: skip
    remote.stager = one_stager(function.bridge, iface.memories, mirrors)
    return iface


def chosen(world: World, index: int) -> Enclosure:
    """The enclosure with this number. Raises: NotFound; Unsupported, Denied with the next step."""
    found = enclosures(world)
    if index >= len(found):
        raise NotFound(
            f"there is no AMD:{index} on USB: {len(found)} enclosures with an ASM2464PD",
            hint="see `lsusb`, and docs/usb.md for what is supported",
        )
    if not found[index].usable:
        raise Unsupported(f"{found[index]}: {found[index].reason}", hint=found[index].advice)
    return found[index]


def _chip(function: BridgedFunction) -> Chip:
    card = function.card
    chip = chip_of_device(card.device)
    if chip is None:
        raise Unsupported(
            f"{function.bridge.usb.name}: {card.vendor:04x}:{card.device:04x} is not a chip that "
            "is booted",
            hint="put another card into the enclosure: docs/usb.md",
        )
    return chip


def _firmware(world: World, choice: Choice, function: BridgedFunction, chip: Chip) -> FirmwareSet:
    """Everything the chip needs, every byte judged before the first register is written."""
    images = load(
        world, chosen_manifest(world, choice.firmware_manifest, MANIFEST), chip.name,
        device=function.card.device, revision=function.card.revision,
        folder=choice.firmware_dir, named=choice.firmware_files,
    )  # fmt: skip
    return assemble(images, function.card.device)
