"""RM's and UVM's ioctls in a recording: parameters behind pointers, and what identifies a machine.

GPUs keep an order: their UUIDs, the ids that RM gives them (made of their place on the bus) and
that place are numbers in it. RM's tokens of host mappings are addresses, and numbers, too.
"""

from __future__ import annotations

from typing import Any, Final

from drivers.base.ioctl import Struct
from drivers.nv.nvk import escapes, uvm
from drivers.nv.nvk.controls import GET_GID_INFO, GET_ID_INFO, Gid, GpuIdInfo
from drivers.nv.nvk.escapes import CardInfo, RmAlloc, RmControl, RmMapMemory, RmUnmapMemory
from drivers.nv.nvk.uvm import UUID_BYTES, UvmIoctl

_ID_SHIFT: Final = 8
"""The recording's GPU n has the id of a GPU alone on bus n. # src: gpu_id: domain, bus, slot"""
_TOKEN_SHIFT: Final = 12
_UUID_MARK: Final = b"recorded GPU"
_WORD: Final = 4
_TOKEN: Final = 8


class Numbers:
    """Values of a machine, and the recording's in their place; zero stays zero."""

    def __init__(self, nbytes: int, shift: int, mark: bytes = b"") -> None:
        self._nbytes, self._shift, self._mark = nbytes, shift, mark
        self._shown: dict[bytes, bytes] = {}
        self._real: dict[bytes, bytes] = {}

    def shown(self, real: bytes) -> bytes:
        """The recording's, for the machine's."""
        if not any(real):
            return real
        if real not in self._shown:
            number = len(self._shown) + 1 << self._shift
            made = self._mark + number.to_bytes(self._nbytes - len(self._mark), "little")
            self._shown[real], self._real[made] = made, real
        return self._shown[real]

    def real(self, shown: bytes) -> bytes:
        """The machine's, for the recording's; what is none of these stays."""
        return self._real.get(shown, shown)


def _uuids(kind: type[Struct]) -> tuple[int, ...]:
    """Where a struct of UVM has UUIDs of GPUs."""
    found = [field.offset for field in kind.FIELDS if field.name.startswith("gpu_uuid")]
    others = next((field for field in kind.FIELDS if field.name == "other_gpus"), None)
    if others is not None:
        end = others.offset + others.count
        found += range(others.offset, end, uvm.ATTRIBUTES_BYTES)
    return tuple(found)


_UUIDS: Final = {
    (one.request, one.args.SIZE): _uuids(one.args)
    for one in vars(uvm).values()
    if isinstance(one, UvmIoctl)
}
"""By number and size: a struct that shrank in a later release has none."""
_RM: Final[dict[int, type[Struct]]] = {
    escapes.RM_ALLOC.request: RmAlloc, escapes.RM_CONTROL.request: RmControl
}  # fmt: skip


class NvIdentifiers:
    """As `drivers.world.identifiers` has it."""

    def __init__(self) -> None:
        self._ids = Numbers(_WORD, _ID_SHIFT)
        self._uuids = Numbers(UUID_BYTES, 0, _UUID_MARK)
        self._tokens = Numbers(_TOKEN, _TOKEN_SHIFT)

    def params(self, request: int, argument: bytearray) -> int:
        """What the params of an object or a control are at."""
        kind = _RM.get(request)
        if kind is None or len(argument) != kind.SIZE:
            return 0
        call: Any = kind.of(bytes(argument))
        where: int = call.p_alloc_parms if kind is RmAlloc else call.params
        return where

    def reveal(self, request: int, argument: bytearray, params: memoryview) -> None:
        """UUIDs, ids and tokens that the driver sends."""
        for off in _UUIDS.get((request, len(argument)), ()):
            self._put(argument, off, self._uuids.real(_at(argument, off, UUID_BYTES)))
        if request == escapes.RM_UNMAP_MEMORY.request:
            self._token(argument, RmUnmapMemory, real=True)
        if _control(request, argument) == GET_ID_INFO.cmd:
            self._put(params, 0, self._ids.real(_at(params, 0, _WORD)))

    def hide(self, request: int, argument: bytearray, params: memoryview) -> None:
        """The same, and what RM answers."""
        for off in _UUIDS.get((request, len(argument)), ()):
            self._put(argument, off, self._uuids.shown(_at(argument, off, UUID_BYTES)))
        if request == escapes.RM_MAP_MEMORY.request:
            self._token(argument, RmMapMemory, real=False)
        elif request == escapes.RM_UNMAP_MEMORY.request:
            self._token(argument, RmUnmapMemory, real=False)
        elif request == escapes.CARD_INFO.request:
            self._cards(argument)
        command = _control(request, argument)
        if command == GET_ID_INFO.cmd:
            self._put(params, 0, self._ids.shown(_at(params, 0, _WORD)))
            self._put(params, _offset(GpuIdInfo, "board_id"), bytes(_WORD))
        elif command == GET_GID_INFO.cmd:
            off = _offset(Gid, "data")
            self._put(params, off, self._uuids.shown(_at(params, off, UUID_BYTES)))

    def _token(self, argument: bytearray, kind: type[Struct], *, real: bool) -> None:
        off = _offset(kind, "p_linear_address")
        other = self._tokens.real if real else self._tokens.shown
        self._put(argument, off, other(_at(argument, off, _TOKEN)))

    def _cards(self, argument: bytearray) -> None:
        """Places on the bus, and physical addresses, of every GPU; their order stays the same."""
        size = CardInfo.SIZE
        offs = range(0, len(argument) - size + 1, size)
        found = [(at, CardInfo.of(bytes(argument[at : at + size]))) for at in offs]
        cards = [(at, card) for at, card in found if card.valid]
        cards.sort(key=lambda one: (one[1].domain, one[1].bus, one[1].slot))
        for at, card in cards:
            raw = self._ids.shown(card.gpu_id.to_bytes(_WORD, "little"))
            card.gpu_id = int.from_bytes(raw, "little")
            card.domain = card.slot = card.function = card.interrupt_line = 0
            card.bus = card.gpu_id >> _ID_SHIFT & 0xFF
            card.reg_address = card.fb_address = 0
            argument[at : at + size] = card.raw

    @staticmethod
    def _put(part: bytearray | memoryview, off: int, data: bytes) -> None:
        if off + len(data) <= len(part):
            part[off : off + len(data)] = data


def _at(part: bytearray | memoryview, off: int, nbytes: int) -> bytes:
    return bytes(part[off : off + nbytes])


def _offset(kind: type[Struct], name: str) -> int:
    return next(field.offset for field in kind.FIELDS if field.name == name)


def _control(request: int, argument: bytearray) -> int:
    """The number of a control; 0 for anything else."""
    if request != escapes.RM_CONTROL.request or len(argument) != RmControl.SIZE:
        return 0
    command: int = RmControl.of(bytes(argument)).cmd
    return command
