"""What a driver sends to NVIDIA's kernel modules, taken apart by a board's own declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from boards.nv import chip as c
from boards.nv.alloc import CONFIDENTIAL_RULE, DEVICE_RULE, rules
from boards.nv.behaviour import requests, table
from boards.nv.controls import CONTROLS
from boards.nv.user import load
from boards.nv.uvm_requests import INITIALIZE, MM_INITIALIZE, REQUESTS
from drivers.world.foreign import ForeignWorld

UVM = "/dev/nvidia-uvm"
ALLOC, CONTROL = 0x2B, 0x2A
ESCAPES = {
    0x27: "NVOS02_FD", 0x29: "NVOS00", CONTROL: "NVOS54", 0x4E: "NVOS33_FD", 0x4F: "NVOS34",
    200: "", 201: "register_fd", 210: "version",
}  # fmt: skip
OUTPUTS = {"status", "rmStatus", "reply", "versionString"}
Sent = dict[tuple[str, str, str], set[int]]
"""(table, request, member; "" for the request) -> values that were sent."""


class SendingWorld(ForeignWorld):
    """A board's world that notes every member that is not 0."""

    def __init__(self, board: Any) -> None:
        super().__init__(board)
        self.hardware, self.sent = board.hardware, Sent()
        self._chip, self._uvm = board.hardware.gpus[0].chip, set[int]()

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        if path == UVM:
            self._uvm.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._uvm.discard(fd)
        super().close(fd)

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if isinstance(argument, bytearray):
            uvm = fd in self._uvm
            (self._of_uvm if uvm else self._of_rm)(request if uvm else request & 0xFF, argument)
        return super().ioctl(fd, request, argument)

    def _of_uvm(self, number: int, argument: bytearray) -> None:
        own = {INITIALIZE: "UVM_INITIALIZE", MM_INITIALIZE: "UVM_MM_INITIALIZE"}
        self._note("uvm", number, own.get(number) or REQUESTS[number][0], argument)

    def _of_rm(self, number: int, argument: bytearray) -> None:
        record = ESCAPES.get(number)
        if record is None:
            record = "NVOS64" if len(argument) > 32 else "NVOS21"
        self._note("escapes", number, record, argument)
        if number in (ALLOC, CONTROL):
            call = self.hardware.records[record].load(argument)
            if number == CONTROL:
                rule, at = CONTROLS[call.cmd], call.params
                self._params("controls", call.cmd, rule.record, at, call.paramsSize)
            else:
                self._class(call.hClass, call.pAllocParms, call.paramsSize)

    def _class(self, number: int, at: int, nbytes: int) -> None:
        own = {c.NV01_DEVICE_0: DEVICE_RULE, c.NV_CONFIDENTIAL_COMPUTE: CONFIDENTIAL_RULE}
        rule = own.get(number) or rules(self._chip).get(number)
        self._params("classes", number, rule.record if rule else "", at, nbytes)

    def _params(self, name: str, number: int, record: str, at: int, nbytes: int) -> None:
        size = self.hardware.records[record].nbytes if record and at else 0
        self._note(name, number, record if size else "", load(at, size) if size else bytearray())

    def _note(self, name: str, number: int, record: str, argument: bytearray) -> None:
        request = self._title(name, number)
        self.sent.setdefault((name, request, ""), set()).add(0)
        if record:
            for member, value in _members(self.hardware.records[record], argument):
                self.sent.setdefault((name, request, member), set()).add(value)

    def _title(self, name: str, number: int) -> str:
        known = requests(name).get(number)
        if known is not None:
            return known.request
        chip = self._chip
        groups = {
            "CHANNEL_GPFIFO_A": chip.gpfifos, "COMPUTE_CLASS": (chip.compute,),
            "DMA_COPY_CLASS": (chip.copy,), "USERMODE_CLASS": chip.usermodes,
        }  # fmt: skip
        found = (title for title, numbers in groups.items() if number in numbers)
        return next(found, f"{number:#x}") if name == "classes" else f"{number:#x}"


def _members(record: Any, argument: bytearray) -> Iterator[tuple[str, int]]:
    for name, value in vars(record.load(argument)).items():
        if name in OUTPUTS or name.startswith("_"):
            continue
        number = value if isinstance(value, int) else int(any(value))
        if number:
            yield name, number


def missing(sent: Sent, branch: int) -> list[str]:
    """What the tables do not say of a branch. A member with entries for bits needs all of them."""
    lacks = []
    for (name, request, member), values in sorted(sent.items()):
        entries = [
            one for one in table(name).entries
            if (one.request, one.field) == (request, member) and str(branch) in one.releases
        ]  # fmt: skip
        bits = [one.bits for one in entries if one.bits]
        known = sum(set(bits))
        wrong = [value for value in values if bits and value & ~known]
        if not entries or wrong:
            lacks.append(f"{name}: {request}.{member} {[hex(value) for value in wrong or values]}")
    return lacks
