"""What kfd_ioctl.h must say for our declarations to be right, as C expressions and numbers.

`python -m tests.abi.kfd_header HEADER.h` prints the numbers that the C compiler finds in one
header, and the header's sha256; kfd_headers.json keeps them for the releases named in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from enum import IntEnum
from pathlib import Path

from drivers.amd.kfd import event as kfd_event
from drivers.amd.kfd import memory as kfd_memory
from drivers.amd.kfd import nodes
from drivers.amd.kfd import process as kfd_process
from drivers.amd.kfd import queue as kfd_queue
from drivers.amd.kfd.abi import IOCTLS, MINOR_SINCE
from drivers.base.ioctl import Ioctl, Struct, request_number
from tests.c_compiler import CCompiler, any_compiler

HEADER, SYSFS_HEADER = "linux/kfd_ioctl.h", "linux/kfd_sysfs.h"

OTHER_STRUCTS: dict[type[Struct], str] = {
    kfd_process.ProcessDeviceApertures: "kfd_process_device_apertures",
    kfd_event.EventData: "kfd_event_data",
    kfd_event.MemoryExceptionData: "kfd_hsa_memory_exception_data",
    kfd_event.HwExceptionData: "kfd_hsa_hw_exception_data",
    kfd_event.SignalEventData: "kfd_hsa_signal_event_data",
    kfd_queue.ContextSaveAreaHeader: "kfd_context_save_area_header",
}
STRUCT_SINCE: dict[type[Struct], int] = {
    kfd_event.SignalEventData: 14,
    kfd_queue.ContextSaveAreaHeader: 13,
}
MEMBERS = {
    ("EventData", "data"): "memory_exception_data",
    ("MemoryExceptionData", "not_present"): "failure.NotPresent",
    ("MemoryExceptionData", "read_only"): "failure.ReadOnly",
    ("MemoryExceptionData", "no_execute"): "failure.NoExecute",
    ("MemoryExceptionData", "imprecise"): "failure.imprecise",
    ("MemoryExceptionData", "error_type"): "ErrorType",
    ("DbgTrapArgs", "arguments"): "enable",
    **{
        ("ContextSaveAreaHeader", name): f"wave_state.{name}"
        for name in ("control_stack_offset", "control_stack_size")
    },
    **{
        ("ContextSaveAreaHeader", name): f"wave_state.{name}"
        for name in ("wave_state_offset", "wave_state_size")
    },
}
"""Where our names are not the C members' names."""
ENUMS: dict[str, type[IntEnum]] = {
    "KFD_IOC_CACHE_POLICY_": kfd_memory.CachePolicy,
    "KFD_IOCTL_SVM_OP_": kfd_memory.SvmOp,
    "KFD_IOC_QUEUE_TYPE_": kfd_queue.QueueType,
    "KFD_IOC_EVENT_": kfd_event.EventType,
    "KFD_IOC_WAIT_RESULT_": kfd_event.WaitResult,
    "KFD_HW_EXCEPTION_": kfd_event.ResetType,
    "KFD_MEM_ERR_": kfd_event.MemoryErrorType,
}
CONSTANTS = {
    "KFD_HW_EXCEPTION_GPU_HANG": kfd_event.ResetCause.GPU_HANG,
    "KFD_HW_EXCEPTION_ECC": kfd_event.ResetCause.ECC,
    "KFD_SIGNAL_EVENT_LIMIT": kfd_event.SIGNAL_EVENT_LIMIT,
    "KFD_MAX_QUEUE_PERCENTAGE": kfd_queue.MAX_QUEUE_PERCENTAGE,
    "KFD_MAX_QUEUE_PRIORITY": kfd_queue.MAX_QUEUE_PRIORITY,
    "KFD_MIN_QUEUE_RING_SIZE": kfd_queue.MIN_RING_BYTES,
}
SYSFS = {
    "HSA_MEM_HEAP_TYPE_SYSTEM": nodes.HEAP_SYSTEM,
    "HSA_MEM_HEAP_TYPE_FB_PUBLIC": nodes.HEAP_VRAM_PUBLIC,
    "HSA_MEM_HEAP_TYPE_FB_PRIVATE": nodes.HEAP_VRAM_PRIVATE,
    "HSA_IOLINK_TYPE_PCIEXPRESS": nodes.LINK_PCIE,
    "HSA_IOLINK_TYPE_XGMI": nodes.LINK_XGMI,
    "HSA_IOLINK_FLAGS_ENABLED": nodes.LINK_ENABLED,
    "HSA_IOLINK_FLAGS_NO_ATOMICS_32_BIT": nodes.LINK_NO_ATOMICS_32,
    "HSA_IOLINK_FLAGS_NO_ATOMICS_64_BIT": nodes.LINK_NO_ATOMICS_64,
    "HSA_IOLINK_FLAGS_NO_PEER_TO_PEER_DMA": nodes.LINK_NO_PEER_DMA,
}
"""Constants of the topology's files, which have a header of their own."""


def struct_name(args: type[Struct]) -> str:
    """AllocMemoryOfGpuArgs is kfd_ioctl_alloc_memory_of_gpu_args."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", args.__name__).lower()
    return OTHER_STRUCTS.get(args, f"kfd_ioctl_{snake}")


def layout(args: type[Struct], minor: int) -> dict[str, int]:
    """Size, offsets and member sizes of one struct in a header of that minor version."""
    name, old_queue = struct_name(args), args is kfd_queue.CreateQueueArgs and minor < 17
    size = kfd_queue.CREATE_QUEUE_OLD_BYTES if old_queue else args.SIZE
    found = {f"sizeof(struct {name})": size}
    for field in args.FIELDS:
        if field.offset >= size:
            continue
        member = MEMBERS.get((args.__name__, field.name), field.name)
        if member == "misc_process_flag" and minor < 18:
            member = "pad"
        if name == "kfd_ioctl_create_queue_args" and member == "pad" and minor >= 22:
            member = "metadata_ring_size"
        found[f"offsetof(struct {name}, {member})"] = field.offset
        found[f"sizeof(((struct {name} *)0)->{member})"] = field.layout.size
    return found


def constants(minor: int) -> dict[str, int]:
    """Every constant of the declarations that a header of that minor version has."""
    found = {prefix + member.name: int(member) for prefix, kind in ENUMS.items() for member in kind}
    found |= {name: int(value) for name, value in CONSTANTS.items()}
    for name, flag in kfd_memory.AllocFlag.__members__.items():  # iteration leaves a zero out
        if minor >= kfd_memory.FLAG_SINCE.get(flag, 0):
            found[f"(unsigned)KFD_IOC_ALLOC_MEM_FLAGS_{name}"] = int(flag)
    if minor < kfd_queue.SDMA_ENGINE_MINOR:
        del found["KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID"]
    if minor >= MINOR_SINCE["AMDKFD_IOC_RUNTIME_ENABLE"]:
        for name, mode in kfd_process.RuntimeMode.__members__.items():
            found[f"KFD_RUNTIME_ENABLE_MODE_{name}_MASK"] = int(mode)
    if minor >= 18:
        found["KFD_PROC_FLAG_MFMA_HIGH_PRECISION"] = kfd_process.ProcessFlag.MFMA_HIGH_PRECISION
    return found


def ioctls(minor: int) -> dict[str, Ioctl[Struct]]:
    """The ioctls that a header of that minor version has."""
    return {name: item for name, item in IOCTLS.items() if minor >= MINOR_SINCE.get(name, 0)}


def expectations(minor: int) -> dict[str, int]:
    """C expression -> the number our declarations say it has."""
    found = {name: item.request for name, item in ioctls(minor).items()}
    if minor < kfd_queue.SDMA_ENGINE_MINOR:
        old = request_number("WR", "K", 0x02, kfd_queue.CREATE_QUEUE_OLD_BYTES)
        found["AMDKFD_IOC_CREATE_QUEUE"] = old
    structs = [item.args for item in ioctls(minor).values()]
    structs += [args for args in OTHER_STRUCTS if minor >= STRUCT_SINCE.get(args, 0)]
    for args in structs:
        found |= layout(args, minor)
    return found | constants(minor)


def evaluate(
    compiler: CCompiler, header: str, folder: Path, expressions: list[str]
) -> dict[str, int]:
    """What a C compiler makes of each expression under one header."""
    values = compiler.values([header], expressions, folder)
    return dict(zip(expressions, values, strict=True))


def macros(compiler: CCompiler, header: Path, folder: Path) -> list[str]:
    """Names of all ioctls that a header defines."""
    text = compiler.run(f'#include "{header}"\n', folder, "-dM", "-E")
    return sorted(set(re.findall(r"#define (AMDKFD_IOC_\w+)", text)))


def minor_version(header: Path) -> int:
    """KFD_IOCTL_MINOR_VERSION of a header."""
    found = re.search(r"#define KFD_IOCTL_MINOR_VERSION (\d+)", header.read_text())
    if found is None:
        raise ValueError(f"{header} has no KFD_IOCTL_MINOR_VERSION")
    return int(found[1])


def facts(header: Path) -> dict[str, object]:
    """What kfd_headers.json keeps of one header."""
    minor, compiler = minor_version(header), any_compiler()
    with tempfile.TemporaryDirectory() as name:
        values = evaluate(compiler, str(header), Path(name), list(expectations(minor)))
        ioctls_of = macros(compiler, header, Path(name))
        digest = hashlib.sha256(header.read_bytes()).hexdigest()
        return {"sha256": digest, "minor": minor, "ioctls": ioctls_of, "values": values}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(Path(sys.argv[1]).resolve()), indent=1) + "\n")
