"""Which of KFD's GPUs ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES leave to this process.

An entry is a number among the GPUs that the lists before it leave, in KFD's order, or the start of
a UUID ("GPU-" and 16 hexadecimal digits of unique_id). A list ends in front of its first entry
that names no GPU, and sets the order: its first GPU is AMD:0.

# src: ROCR amd_filter_device.cpp BuildUsrDeviceList(); clr rocdevice.cpp Device::init()
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from drivers.choice import VisibleList

_NUMBER: Final = re.compile(r"\+?(?:0X([0-9A-F]{1,8})|(0[0-7]{0,8})|([1-9][0-9]{0,8}))")
"""What strtol() with base 0 reads, as far as a GPU can have that number."""
_UUID_CHARS: Final = range(5, 21)
_BASES: Final = (16, 8, 10)
_SHOWN_CHARS: Final = 24


def select(
    unique_ids: Sequence[int], lists: Sequence[VisibleList]
) -> tuple[list[int], dict[int, str]]:
    """Positions of the GPUs that are left, in order; the reason by position for each other one.

    `unique_ids` are those of all GPUs that KFD shows to this process, supported ones or not.
    """
    shown = list(range(len(unique_ids)))
    hidden: dict[int, str] = {}
    for one in lists:
        places, wrong = _listed(one, [unique_ids[position] for position in shown])
        reason = _reason(one, wrong)
        hidden |= {at: reason for place, at in enumerate(shown) if place not in places}
        shown = [shown[place] for place in places]
    return shown, hidden


def _listed(one: VisibleList, unique_ids: Sequence[int]) -> tuple[list[int], str | None]:
    """The places that a list names, in its order, and the entry it ends at, if any."""
    places: dict[int, None] = {}
    for entry in one.entries:
        place = _place(entry, unique_ids)
        if place is None or (place in places and not one.skips_repeats):
            return list(places), entry
        places[place] = None
    return list(places), None


def _place(entry: str, unique_ids: Sequence[int]) -> int | None:
    """The GPU that one entry names; None where it names none, or more than one."""
    if entry.startswith("G"):
        uuids = [f"GPU-{unique_id:016X}" if unique_id else "" for unique_id in unique_ids]
        found = [place for place, uuid in enumerate(uuids) if uuid.startswith(entry)]
        return found[0] if len(found) == 1 and len(entry) in _UUID_CHARS else None
    number = _NUMBER.fullmatch(entry)
    if number is None:
        return None
    value = next(
        int(text, base) for text, base in zip(number.groups(), _BASES, strict=True) if text
    )
    return value if value < len(unique_ids) else None


def _reason(one: VisibleList, wrong: str | None) -> str:
    if not one.entries:
        return f"hidden from this process: {one.variable} is empty"
    if wrong is None:
        return f"hidden from this process: {one.variable} does not list it"
    shown = ascii(wrong[:_SHOWN_CHARS])
    return f"hidden from this process: {one.variable} ends in front of its entry {shown}"
