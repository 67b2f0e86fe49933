"""Which GPU of NVIDIA's kernel driver NV:N is: those that open here, by their PCI address.

NV_ESC_CARD_INFO lists every GPU of the machine in the order in which the kernel driver found them,
but for excluded ones; a container has the nodes of some of them. A minor number is the order of
probing, too, so neither is a number for users.
# src: kernel-open/nvidia/nv.c nvidia_read_card_info() (nv_linux_devices; valid, pci_info,
# src: minor_number): the same in 535.43.28, 550.163.01, 570.144, 580.95.05, 595.45.04
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError, NotFound
from drivers.choice import VisibleList
from drivers.machine.text import fields, try_text
from drivers.nv.nvk.escapes import CardInfo
from drivers.nv.nvk.visible import given, shown, wants_uuids

PROC: Final = "/proc/driver/nvidia"
_PROBE: Final = "python -m drivers.nv.probe shows which there are, and why others are not"


def address_of(card: CardInfo) -> str:
    """ "0000:65:00.0", as sysfs spells it."""
    return f"{card.domain:04x}:{card.bus:02x}:{card.slot:02x}.0"


def node_of(card: CardInfo) -> str:
    """Its device node."""
    return f"/dev/nvidia{card.minor_number}"


def uuid_of(world: World, address: str) -> str:
    """A GPU's UUID in capitals; "" where its file has none yet, as before it was first opened.

    # src: kernel-open/nvidia/nv-procfs.c nv_procfs_read_gpu_info() (nv_uuid_cache.valid)
    """
    known = dict(fields(try_text(world, f"{PROC}/gpus/{address}/information")))
    uuid = known.get("GPU UUID", "").upper()
    return "" if "?" in uuid else uuid


def open_minor(world: World, cards: Sequence[CardInfo], minor: int) -> tuple[CardInfo, int]:
    """The GPU with this minor, and its open node. Raises: NotFound, what open(2) says."""
    for card in cards:
        if card.minor_number == minor:
            return card, world.open(node_of(card), os.O_RDWR)
    raise NotFound(f"NVIDIA's kernel driver has no GPU with minor {minor}", hint=_PROBE)


def open_card(
    world: World, cards: Sequence[CardInfo], index: int, lists: Sequence[VisibleList] = ()
) -> tuple[CardInfo, int]:
    """NV:`index`, and its open node, which keeps the GPU started until it is closed.

    A node that is missing or forbidden is one of another container or user: it has no number. A GPU
    whose node fails in another way keeps its number. Raises: NotFound, Denied, DeviceGone.
    """
    hosts = sorted(cards, key=lambda card: (card.domain, card.bus, card.slot))
    by_uuid = wants_uuids(lists)
    uuids = [uuid_of(world, address_of(card)) if by_uuid else "" for card in hosts]
    mine = [hosts[place] for place in given(uuids, lists)]
    listed = any(shown([], [one])[1] for one in lists)
    there: list[CardInfo] = []
    refused: list[DeviceError] = []
    for card in mine:
        try:
            fd = world.open(node_of(card), os.O_RDWR)
        except (NotFound, Denied) as error:
            refused.append(error)
            continue
        except DeviceError:
            if len(there) == index and not listed:
                raise
        else:
            if len(there) == index and not listed:
                return card, fd
            world.close(fd)
        there.append(card)
    # The UUID of a GPU is known once it was started: by now each of these was.
    uuids = [uuid_of(world, address_of(card)) if by_uuid else "" for card in there]
    places, why = shown(uuids, lists)
    if index < len(places):
        card = there[places[index]]
        return card, world.open(node_of(card), os.O_RDWR)
    raise _none(index, len(places), why if there else "", refused)


def _none(index: int, count: int, why: str, refused: Sequence[DeviceError]) -> DeviceError:
    """What to say where NV:`index` does not exist."""
    if not count and not why and refused:
        first = refused[0]
        text = f"no GPU of NVIDIA's kernel driver can be opened here: {first.message}"
        hint = "in a container, start it with --gpus all, or with the GPU's node"
        return type(first)(text, hint=hint if isinstance(first, NotFound) else first.hint)
    text = f"there is no NV:{index}: {count} GPUs of NVIDIA's kernel driver can be opened here"
    return NotFound(f"{text}; {why}" if why else text, hint=_PROBE)
