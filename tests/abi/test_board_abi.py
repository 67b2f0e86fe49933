"""The board's own reading of kfd_ioctl.h and kfd_priv.h against the C compiler's."""

from __future__ import annotations

import re
from pathlib import Path

from boards.amd import kfd_types as k
from boards.amd.chip import names, sizes_of
from tests.abi.kfd_header import HEADER, evaluate, minor_version
from tests.c_compiler import CCompiler
from tests.support import check

_STRUCTS = {"available_memory": "get_available_memory"}
_MEMBERS = {
    "not_present": "failure.NotPresent",
    "read_only": "failure.ReadOnly",
    "no_execute": "failure.NoExecute",
    "imprecise": "failure.imprecise",
    "error_type": "ErrorType",
}
_OTHERS = {
    "kfd_process_device_apertures": k.APERTURES,
    "kfd_hsa_memory_exception_data": k.MEMORY_EXCEPTION,
    "kfd_hsa_hw_exception_data": k.HW_EXCEPTION,
}
_CONSTANTS = {
    "KFD_IOC_ALLOC_MEM_FLAGS_VRAM": k.VRAM,
    "KFD_IOC_ALLOC_MEM_FLAGS_GTT": k.GTT,
    "KFD_IOC_ALLOC_MEM_FLAGS_USERPTR": k.USERPTR,
    "KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL": k.DOORBELL,
    "KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP": k.MMIO_REMAP,
    "(unsigned)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE": k.WRITABLE,
    "KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE": k.EXECUTABLE,
    "KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC": k.PUBLIC,
    "KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM": k.AQL_QUEUE_MEM,
    "KFD_IOC_ALLOC_MEM_FLAGS_COHERENT": k.COHERENT,
    "KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED": k.UNCACHED,
    "KFD_IOC_QUEUE_TYPE_COMPUTE": k.COMPUTE,
    "KFD_IOC_QUEUE_TYPE_SDMA": k.SDMA,
    "KFD_IOC_QUEUE_TYPE_COMPUTE_AQL": k.COMPUTE_AQL,
    "KFD_IOC_QUEUE_TYPE_SDMA_XGMI": k.SDMA_XGMI,
    "KFD_IOC_EVENT_SIGNAL": k.EVENT_SIGNAL,
    "KFD_IOC_EVENT_HW_EXCEPTION": k.EVENT_HW_EXCEPTION,
    "KFD_IOC_EVENT_MEMORY": k.EVENT_MEMORY,
    "KFD_IOC_EVENT_DEBUG_EVENT": k.EVENT_DEBUG,
    "KFD_IOC_WAIT_RESULT_COMPLETE": k.WAIT_COMPLETE,
    "KFD_IOC_WAIT_RESULT_TIMEOUT": k.WAIT_TIMEOUT,
    "KFD_IOC_WAIT_RESULT_FAIL": k.WAIT_FAIL,
    "KFD_HW_EXCEPTION_WHOLE_GPU_RESET": k.RESET_WHOLE_GPU,
    "KFD_HW_EXCEPTION_PER_ENGINE_RESET": k.RESET_PER_ENGINE,
    "KFD_HW_EXCEPTION_GPU_HANG": k.CAUSE_GPU_HANG,
    "KFD_HW_EXCEPTION_ECC": k.CAUSE_ECC,
    "KFD_MEM_ERR_SRAM_ECC": k.MEM_ERR_SRAM_ECC,
    "sizeof(struct kfd_event_data)": k.EVENT_DATA_BYTES,
    "offsetof(struct kfd_event_data, event_id)": k.EVENT_ID_OFFSET,
}


def _expected(minor: int, text: str) -> dict[str, int]:
    """Expressions and numbers, as far as a header of that age has them."""
    found = {
        name: value for name, value in _CONSTANTS.items() if re.findall(r"\w+", name)[-1] in text
    }
    structs = {f"kfd_ioctl_{_STRUCTS.get(n, n)}_args": layout for n, layout in k.IOCTLS.values()}
    for name, layout in (structs | _OTHERS).items():
        if f"struct {name} {{" not in text:
            continue
        old_queue = "create_queue" in name and minor < k.MINOR
        if not old_queue:
            found[f"sizeof(struct {name})"] = layout.size
        for member, offset in layout.offsets.items():
            if (member == "pad") or (old_queue and member == "sdma_engine_id"):
                continue
            c_name = _MEMBERS.get(member, member)
            found[f"offsetof(struct {name}, {c_name})"] = offset
    return found


def test_structs_and_constants_are_the_headers(c_compiler: CCompiler, tmp_path: Path) -> None:
    header = c_compiler.include / HEADER
    expected = _expected(minor_version(header), header.read_text())
    check(len(expected) > 100, "hardly anything was compared")
    found = evaluate(c_compiler, HEADER, tmp_path, list(expected))
    wrong = {
        name: (expected[name], found[name]) for name in expected if expected[name] != found[name]
    }
    check(not wrong, f"board, header: {wrong}")


def test_save_areas_have_the_sizes_that_drivers_report() -> None:
    # src: notes section 1.3, values of real machines: (control stack, whole save area, debugger)
    known = {
        "gfx1100": (0xA000, 0x2BEA000, 0x18000),
        "gfx1102": (0x4000, 0xAA4000, 0x8000),
        "gfx1201": (0x7000, 0x1D47000, 0x10000),
        "gfx1030": (0x7000, 0x1A97000, 0x14000),
        "gfx942": (0x3000, 0x1621000, 0xBE00),
    }
    check(set(known) <= set(names()))
    for name, sizes in known.items():
        found = sizes_of(name)
        check((found.ctl_stack, found.cwsr, found.debug) == sizes, f"{name}: {found}")
