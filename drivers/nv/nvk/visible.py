"""Which GPUs NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES leave to this process.

NVIDIA_VISIBLE_DEVICES says which of a host's GPUs a container is to have. Its runtime makes their
nodes alone, but a privileged container has all nodes. Numbers count the host's GPUs by their PCI
address; "all", "none" and "void", paths and names of CDI say nothing about single GPUs and hide
none: what was given to the container can be opened, with "void" too.
CUDA_VISIBLE_DEVICES counts the GPUs that can be opened, by their PCI address, as libcuda does where
CUDA_DEVICE_ORDER is PCI_BUS_ID. It sets the order, and ends before its first wrong entry.

# src: NVIDIA Container Toolkit documentation, "Environment variables (OCI spec)"; CUDA C++
# src: Programming Guide, "CUDA Environment Variables". What libcuda does with an entry that is
# src: repeated is not documented: here the list ends before it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from drivers.choice import VisibleList

CONTAINER: Final = "NVIDIA_VISIBLE_DEVICES"
_NUMBER: Final = re.compile(r"\d{1,4}")
_HOST_ENTRY: Final = re.compile(r"(\d{1,4})(?::\d{1,4})*|GPU-[0-9A-F-]{1,40}")
"""A GPU's number, with those of a MIG instance in it, or its UUID."""
_UUID: Final = re.compile(r"GPU-[0-9A-F-]{1,40}")
_SHOWN_CHARS: Final = 24
MIG: Final = "MIG"
"""How the name of a MIG instance begins."""


def wants_uuids(lists: Sequence[VisibleList]) -> bool:
    """Whether an entry can be found by a UUID alone."""
    return any(_UUID.fullmatch(entry) for one in lists for entry in one.entries)


def given(uuids: Sequence[str], lists: Sequence[VisibleList]) -> list[int]:
    """Places of the host's GPUs that the container is to have, all of them without such a list.

    `uuids` are those of all GPUs of the host, in capitals; "" where one is not known.
    """
    everything = list(range(len(uuids)))
    entries = [entry for one in lists if one.variable == CONTAINER for entry in one.entries]
    if not entries or not all(_HOST_ENTRY.fullmatch(entry) for entry in entries):
        return everything
    if "" in uuids and any(_UUID.fullmatch(entry) for entry in entries):
        return everything
    found = {_place(entry.partition(":")[0], uuids) for entry in entries}
    return sorted(place for place in found if place is not None) or everything


def shown(uuids: Sequence[str], lists: Sequence[VisibleList]) -> tuple[list[int], str]:
    """Places of the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order, and why not more."""
    places = list(range(len(uuids)))
    for one in lists:
        if one.variable != CONTAINER:
            return _listed(one, uuids)
    return places, ""


def _listed(one: VisibleList, uuids: Sequence[str]) -> tuple[list[int], str]:
    places: list[int] = []
    for entry in one.entries:
        place = _place(entry, uuids)
        if place is None or place in places:
            return places, _ends(one, entry)
        places.append(place)
    why = f"{one.variable} does not list it" if one.entries else f"{one.variable} is empty"
    return places, why


def _ends(one: VisibleList, entry: str) -> str:
    why = f"{one.variable} ends in front of its entry {entry[:_SHOWN_CHARS]!a}"
    return f"{why}: MIG instances are not opened" if entry.startswith(MIG) else why


def _place(entry: str, uuids: Sequence[str]) -> int | None:
    """The GPU that one entry names; None where it names none, or more than one."""
    if _UUID.fullmatch(entry):
        found = [place for place, uuid in enumerate(uuids) if uuid.startswith(entry)]
        return found[0] if len(found) == 1 else None
    if not _NUMBER.fullmatch(entry):
        return None
    return int(entry) if int(entry) < len(uuids) else None
