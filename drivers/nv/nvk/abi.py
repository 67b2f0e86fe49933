"""Which structs a release of NVIDIA's kernel driver takes: chosen by its version, once.

Some structs grew or shrank between releases, and the driver refuses a wrong size. A table holds
those that differ; each release's table is the one before with some of them replaced. Everything
else is the same from 535.86.05 on.
# src: NVIDIA/open-gpu-kernel-modules, tags 535.288.01, 550.163.01, 570.144, 580.95.05, 590.48.01,
# src: 595.45.04;
# src: 610: google/gvisor pkg/abi/nvgpu (its size of the channel's struct)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput, Unsupported
from drivers.base.ioctl import Struct
from drivers.nv.nvk import allocations, controls, uvm
from drivers.nv.nvk.controls import Control
from drivers.nv.nvk.escapes import CHECK_VERSION_STR, QUERY, RECOGNIZED, RmApiVersion
from drivers.nv.nvk.uvm import UvmIoctl


@dataclass(frozen=True, slots=True, kw_only=True)
class Abi:
    """What differs between releases."""

    since: int
    """The first major version that it is for."""
    memory: type[Struct] = allocations.MemoryAlloc
    va_space: type[Struct] = allocations.VaSpaceAlloc
    channel: type[Struct] = allocations.ChannelAlloc
    schedule: Control = controls.SCHEDULE
    fb_get_info: Control = controls.FB_GET_INFO
    get_engines: Control = controls.GET_ENGINES
    cc_capabilities: Control = controls.GET_CC_CAPABILITIES
    map_external: UvmIoctl = uvm.MAP_EXTERNAL_ALLOCATION
    uvm_free: UvmIoctl = uvm.FREE
    unregister_channel: UvmIoctl = uvm.UNREGISTER_CHANNEL


ABI_535: Final = Abi(since=535)
ABI_550: Final = replace(
    ABI_535, since=550, memory=allocations.MemoryAlloc550, fb_get_info=controls.FB_GET_INFO_550,
    get_engines=controls.GET_ENGINES_550, map_external=uvm.MAP_EXTERNAL_ALLOCATION_550,
    cc_capabilities=controls.GET_CC_CAPABILITIES_550,
)  # fmt: skip
ABI_570: Final = replace(
    ABI_550, since=570, channel=allocations.ChannelAlloc570, fb_get_info=controls.FB_GET_INFO_570,
    get_engines=controls.GET_ENGINES_570,
)  # fmt: skip
ABI_580: Final = replace(
    ABI_570, since=580, va_space=allocations.VaSpaceAlloc580, schedule=controls.SCHEDULE_580,
    fb_get_info=controls.FB_GET_INFO_580,
)  # fmt: skip
ABI_590: Final = replace(
    ABI_580, since=590, uvm_free=uvm.FREE_590, unregister_channel=uvm.UNREGISTER_CHANNEL_590
)
ABI_610: Final = replace(ABI_590, since=610, channel=allocations.ChannelAlloc610)
TABLES: Final = (ABI_610, ABI_590, ABI_580, ABI_570, ABI_550, ABI_535)
"""The newest first."""
NEWEST: Final = 610
"""The newest major version these tables are for; a newer driver may have changed."""
OLDEST: Final = (535, 86, 5)
"""Before it, NV_CHANNEL_ALLOC_PARAMS has 304 bytes (535.54.03); 525 has no UVM_MM_INITIALIZE."""
BETWEEN: Final = ((536,), (550, 54, 14))
"""Short-lived branches and betas, for which there is no table. UVM_MAP_EXTERNAL_ALLOCATION grew to
256 GPUs in 550.54.14. # src: gvisor nvproxy/version.go"""
OLDEST_NAME: Final = "535.86.05"
_PARTS: Final = range(2, 4)


def parse_version(text: str) -> tuple[int, ...]:
    """ "580.95.05" as numbers. Raises: MalformedInput."""
    parts = text.split(".")
    if len(parts) not in _PARTS or not all(part.isascii() and part.isdigit() for part in parts):
        raise MalformedInput(f"NVIDIA's driver reports version {text!r:.40}, which is none")
    return tuple(map(int, parts))


def abi_of(version: str) -> Abi:
    """The table of a release; a newer one than is known warns.

    Raises: Unsupported for one that is too old; MalformedInput.
    """
    numbers = parse_version(version)
    if numbers < OLDEST:
        raise Unsupported(
            f"NVIDIA's kernel driver {version} is older than {OLDEST_NAME}",
            hint="Install a newer driver",
        )
    if BETWEEN[0] <= numbers < BETWEEN[1]:
        raise Unsupported(
            f"NVIDIA's kernel driver {version} lies between branch 535 and 550.54.14: there is no "
            "table of it",
            hint="Install a newer driver, or 535.86.05 or later of branch 535",
        )
    if numbers[0] > NEWEST:
        warnings.warn(
            f"NVIDIA's kernel driver {version} is newer than {NEWEST}, the newest that this stack "
            "knows: its interface may differ",
            RuntimeWarning,
            stacklevel=2,
        )
    return next(table for table in TABLES if table.since <= numbers[0])


def query_version(world: World, ctl_fd: int) -> str:
    """The version of the loaded kernel driver. Raises: Unsupported, MalformedInput."""
    answer = CHECK_VERSION_STR(world, ctl_fd, RmApiVersion(cmd=QUERY))
    text: bytes = answer.version_string
    if answer.reply != RECOGNIZED:
        raise Unsupported(
            "NVIDIA's kernel driver does not report its version",
            hint=f"Install {OLDEST_NAME} or later",
        )
    return text.split(b"\0", 1)[0].decode("latin-1")
