"""What a driver sends to a board over KGSL or msm: every request, field and value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from boards.machine.records import Record
from boards.qcom.kgsl import abi as kgsl_abi
from boards.qcom.kgsl.device import Kgsl
from boards.qcom.msm import abi as msm_abi
from boards.qcom.msm.device import Msm
from drivers.base.contracts import Param
from drivers.qcom.device import QcomDevice
from tests.reliability.qcom_scene import N, binary, trouble, work

Sent = dict[tuple[str, str], set[int]]
"""By request and field: the values but 0. The request itself has the field ""."""
LISTS = (
    "command_object", "command_syncpoint", "gpuobj_sync_obj", "device_constraint", "fault",
    "gem_submit_bo", "gem_submit_cmd", "gem_submit_syncobj",
)  # fmt: skip
"""Structs that requests point at."""


@contextmanager
def recorded() -> Iterator[Sent]:
    """What is sent inside the block."""
    sent: Sent = defaultdict(set)
    with pytest.MonkeyPatch.context() as patch:
        for kind, abi in ((Kgsl, kgsl_abi), (Msm, msm_abi)):
            _watch(patch, kind, abi, sent)
        load = Record.load

        def loaded(self: Record, data: Any) -> Any:
            found = load(self, data)
            if self.name in LISTS:
                _keep(sent, self, found)
            return found

        patch.setattr(Record, "load", loaded)
        yield sent


def _watch(patch: pytest.MonkeyPatch, kind: Any, abi: Any, sent: Sent) -> None:
    before = kind.ioctl

    def ioctl(self: Any, *given: Any) -> None:
        request, argument = given[-2:]
        call = abi.BY_NUMBER.get(request & 0xFF)
        if call is not None:
            sent[call.name, ""].add(0)
            whole = bytes(argument).ljust(call.record.nbytes, b"\0")
            _keep(sent, call.record, call.record.load(whole[: call.record.nbytes]))
        before(self, *given)

    patch.setattr(kind, "ioctl", ioctl)


def _keep(sent: Sent, record: Record, values: Any) -> None:
    for member in record.members:
        value = getattr(values, member.name)
        if isinstance(value, int) and value:
            sent[record.name, member.name].add(value)


def life(device: QcomDevice) -> None:
    """Copies, launches, signals of both queues, a clock, a graph, and a fault."""
    work(device)
    program = device.load(binary(device))
    a, b, c = (device.alloc(N * 4) for _ in range(3))
    graph = device.compute_queue().exec(program, [Param(0), Param(1), Param(2)], (1, 1, 1)).bind()
    for _ in range(2):
        graph.replay([a, b, c])
    device.synchronize()
    graph.close()
    signal = device.new_signal()
    device.copy_queue().wait(signal, 1).copy(a, b, 64).submit()
    device.compute_queue().timestamp(signal).signal(signal, 1).submit()
    device.synchronize()
    trouble(device)
    work(device)
