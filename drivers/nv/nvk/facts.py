"""What RM says about a GPU: classes, shader cores, memory, engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from drivers.base.errors import MalformedInput, Unsupported
from drivers.nv.nvk.allocations import COPY_ENGINES, ENGINE_COPY0
from drivers.nv.nvk.client import RmClient
from drivers.nv.nvk.controls import (
    GET_CLASSLIST,
    GET_GID_INFO,
    GID_BINARY,
    GR_GET_INFO,
    ClassList,
    FbInfo,
    Gid,
    GrGetInfo,
    GrInfo,
)
from drivers.nv.nvk.uvm import UUID_BYTES
from queues.nv.generations import KIB, Generation, generation_of

MAX_CLASSES: Final = 2048
FIRST_ASYNC_COPY: Final = 2
"""Engines 0 and 1 share the graphics engine's runlist on most chips. # src: notes of Mesa's nouveau
and of NVIDIA's kernel_ce.c: LCEs that are not GRCEs follow"""
_MOST_SM: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU."""

    sm_version: int
    """0x806, as RM reports it."""
    gpcs: int
    tpcs_per_gpc: int
    sms_per_tpc: int
    warps_per_sm: int
    memory_bytes: int

    @property
    def sms(self) -> int:
        """The most SMs that it can have."""
        return self.gpcs * self.tpcs_per_gpc * self.sms_per_tpc

    @property
    def tpcs(self) -> int:
        """The most TPCs."""
        return self.gpcs * self.tpcs_per_gpc


def read_classes(client: RmClient, device: int) -> Generation:
    """The generation whose classes RM lists. Raises: Unsupported, MalformedInput."""
    count = client.control(device, GET_CLASSLIST, ClassList()).num_classes
    if not 0 < count <= MAX_CLASSES:
        raise MalformedInput(f"RM lists {count} classes", hint="see dmesg")

    def ask(va: int) -> None:
        client.control(device, GET_CLASSLIST, ClassList(num_classes=count, class_list=va))

    return generation_of(frozenset(client.with_list([0] * count, ask)))


def read_uuid(client: RmClient, subdevice: int) -> bytes:
    """The GPU's UUID, as UVM wants it. Raises: MalformedInput."""
    args = Gid(flags=GID_BINARY, length=UUID_BYTES)
    found = client.control(subdevice, GET_GID_INFO, args)
    if found.length != UUID_BYTES:
        raise MalformedInput(f"a UUID of {found.length} bytes", hint="see dmesg")
    return bytes(found.data[:UUID_BYTES])


def read_facts(client: RmClient, subdevice: int) -> GpuFacts:
    """Shader cores and memory. Raises: MalformedInput for impossible ones."""
    asked = list(GrInfo)
    words = [word for one in asked for word in (int(one), 0)]

    def ask(va: int) -> None:
        client.control(
            subdevice, GR_GET_INFO, GrGetInfo(gr_info_list_size=len(asked), gr_info_list=va)
        )

    values = client.with_list(words, ask)[1::2]
    found = dict(zip(asked, values, strict=True))
    counts = [value for one, value in found.items() if one is not GrInfo.SM_VERSION]
    if not all(0 < value <= _MOST_SM for value in counts):
        raise MalformedInput(f"RM reports {found!r}", hint="see dmesg")
    return GpuFacts(
        sm_version=found[GrInfo.SM_VERSION],
        gpcs=found[GrInfo.LITTER_NUM_GPCS],
        tpcs_per_gpc=found[GrInfo.LITTER_NUM_TPC_PER_GPC],
        sms_per_tpc=found[GrInfo.LITTER_NUM_SM_PER_TPC],
        warps_per_sm=found[GrInfo.MAX_WARPS_PER_SM],
        memory_bytes=_memory_bytes(client, subdevice),
    )


def _memory_bytes(client: RmClient, subdevice: int) -> int:
    control = client.abi.fb_get_info
    args: Any = control.args(fb_info_list_size=1)
    args.fb_info_list = (int(FbInfo.HEAP_SIZE), *args.fb_info_list[1:])
    answer = client.control(subdevice, control, args)
    nbytes: int = answer.fb_info_list[1] * KIB
    return nbytes


def read_copy_engine(client: RmClient, subdevice: int) -> int:
    """The engine type of an asynchronous copy engine. Raises: Unsupported without any."""
    control = client.abi.get_engines
    answer: Any = client.control(subdevice, control, control.args())
    if not 0 < answer.engine_count <= len(answer.engine_list):
        raise MalformedInput(f"RM lists {answer.engine_count} engines", hint="see dmesg")
    known = range(ENGINE_COPY0, ENGINE_COPY0 + COPY_ENGINES)
    found = sorted(one for one in answer.engine_list[: answer.engine_count] if one in known)
    if not found:
        raise Unsupported("this GPU has no copy engine", hint="see dmesg")
    later = [one for one in found if one >= ENGINE_COPY0 + FIRST_ASYNC_COPY]
    chosen: int = later[0] if later else found[-1]
    return chosen
