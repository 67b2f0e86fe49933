"""Whether a number from outside is an object of Objective-C, before any message is sent to it.

A message to anything else ends the process. What an object begins with names its class, and the
runtime lists all classes, so that the number is known by then: it is readable, and its class is one
of the list. Memory of a released object may still look like one: the owner is to be kept.
# src: Apple, "Objective-C Runtime": object_getClass, objc_getClassList, class_respondsToSelector
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.base.errors import BadArgument
from drivers.metal.api import Api
from drivers.world.native import address_of
from drivers.world.own_memory import is_readable

_WORD_BYTES: Final = 8
_ALIGN: Final = 8
_LAST_ADDRESS: Final = (1 << 56) - 1
_BITS8: Final = 0xFF
MAX_CLASSES: Final = 1 << 20


def classes(api: Api) -> frozenset[int]:
    """All classes of this process now."""
    count_of = api.functions["objc_getClassList"]
    count = min(max(count_of(0, 0), 0), MAX_CLASSES)
    room = bytearray(_WORD_BYTES * max(count, 1))
    count = min(count, count_of(address_of(room), count))
    return frozenset(memoryview(room).cast("Q")[:count])


def check_object(api: Api, handle: int, what: str, messages: Sequence[str], hint: str) -> None:
    """Raises: BadArgument for a number that is no object which takes those messages."""
    name = f"{handle:#x}"
    if handle % _ALIGN or handle > _LAST_ADDRESS or not is_readable(handle, _WORD_BYTES):
        raise BadArgument(f"{name} is not an object: no readable memory is there", hint=hint)
    found = api.functions["object_getClass"](handle)
    if found not in api.known_classes:
        api.known_classes = classes(api)
    if not found or found not in api.known_classes:
        raise BadArgument(f"{name} is not an object, or it was released", hint=hint)
    takes = api.functions["class_respondsToSelector"]
    lacking = [one for one in messages if not takes(found, api.selectors[one]) & _BITS8]
    if lacking:
        raise BadArgument(f"{name} is an object, but no {what}: no -{lacking[0]}", hint=hint)
