"""What a kernel does after a page fault of the GPU, and where it keeps what it knows: sysfs alone.

Both kernel drivers end the access and let the kernel go on: reads give 0, stores are dropped, and
the program gets no error. KGSL stops the context instead where root set a policy. msm keeps a dump
of the first fault or hang, until it is read or five minutes are over.
# src: KGSL of msm-4.9 to 6.x: adreno.h KGSL_FT_PAGEFAULT_DEFAULT_POLICY, 0; adreno_sysfs.c
# ft_pagefault_policy; kgsl_iommu.c kgsl_iommu_fault_handler()
# src: Linux 6.1 to 7.3: adreno_gpu.c adreno_fault_handler(); msm_gpu.c recover_worker(), which
# alone counts faults, of hangs; msm_gpu_crashstate_capture()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drivers.base.contracts import World
from drivers.machine.lines import OK, WARN, Line
from drivers.machine.sysfs_files import SysfsFiles
from drivers.machine.text import entries, fields, try_text
from drivers.qcom.readings import KGSL

POLICY: Final = "ft_pagefault_policy"
GPU_HALT: Final = 1 << 1
"""BIT(KGSL_FT_PAGEFAULT_GPUHALT_ENABLE)."""
DUMPS: Final = "/sys/class/devcoredump"
DRIVERS: Final = ("adreno", "msm")
"""Beginnings of the driver whose device msm's dumps are of: since Linux 6.7 the GPU's own."""
_MOST_DUMPS: Final = 64
_SILENT: Final = "goes on after a page fault: stray reads give 0, stray stores are dropped"


def kgsl_lines(world: World, topic: str) -> Iterator[Line]:
    """Whether KGSL stops a context at a page fault. None where the file cannot be read."""
    text = SysfsFiles(world, KGSL).text(POLICY)
    try:
        policy = int(text, 0) if text else None
    except ValueError:
        policy = None
    if policy is None:
        return
    if policy & GPU_HALT:
        yield Line(topic, OK, f"KGSL stops a context at a page fault ({POLICY} {policy:#x})")
        return
    advice = f"to find one, as root: `echo {GPU_HALT} > {KGSL}/{POLICY}`"
    yield Line(topic, OK, f"KGSL {_SILENT}, and no error is raised ({POLICY} {policy:#x})", advice)


def msm_lines(world: World, topic: str) -> Iterator[Line]:
    """The dumps that msm keeps."""
    for name in sorted(entries(world, DUMPS))[:_MOST_DUMPS]:
        event = dict(fields(try_text(world, f"{DUMPS}/{name}/failing_device/uevent"), "="))
        if event.get("DRIVER", "").startswith(DRIVERS):
            yield Line(
                topic, WARN, f"the kernel keeps a dump of the GPU ({name}): a page fault or a hang",
                f"as root: `cat {DUMPS}/{name}/data` names address and program; "
                f"`echo 1 > {DUMPS}/{name}/data` lets the next one be kept",
            )  # fmt: skip
