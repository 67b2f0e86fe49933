"""The board's own reading of kfd_ioctl.h, kfd_priv.h and amdgpu_drm.h against the compiler's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boards.amd import chip_data
from boards.amd.chip import names, sizes_of
from boards.amd.drm import types as d
from boards.amd.kfd import types as k
from tests.abi.kfd_header import HEADER, evaluate, minor_version
from tests.c_compiler import COMPILERS, LACKING, CCompiler
from tests.support import check

OWN_MINOR = 17
"""Of the header that boards have their structs from."""
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

_DRM_HEADER = "drm/amdgpu_drm.h"
_DRM_STRUCTS = {
    "drm_version": d.VERSION,
    "drm_get_cap": d.GET_CAP,
    "drm_amdgpu_info": d.INFO,
    "drm_amdgpu_info_firmware": d.FIRMWARE,
    "drm_amdgpu_info_vram_gtt": d.VRAM_GTT,
    "drm_amdgpu_heap_info": d.HEAP,
    "drm_amdgpu_info_device": d.DEVICE,
}
_GROWN = "drm_amdgpu_info_device"
"""Linux 6.16 and later append to it."""
_DRM_CONSTANTS = {
    "DRM_IOCTL_VERSION & 0xff": d.NR_VERSION,
    "DRM_IOCTL_GET_CAP & 0xff": d.NR_GET_CAP,
    "DRM_IOCTL_AMDGPU_INFO & 0xff": d.NR_INFO,
    "DRM_COMMAND_BASE + DRM_AMDGPU_SCHED": d.SCHED,
    "DRM_IOCTL_BASE": d.IOCTL_TYPE,
    "DRM_COMMAND_BASE": d.COMMAND_BASE,
    "DRM_COMMAND_END": d.COMMAND_END,
    "DRM_CAP_PRIME": d.CAP_PRIME,
    "DRM_CAP_TIMESTAMP_MONOTONIC": d.CAP_TIMESTAMP_MONOTONIC,
    "DRM_CAP_SYNCOBJ": d.CAP_SYNCOBJ,
    "DRM_CAP_SYNCOBJ_TIMELINE": d.CAP_SYNCOBJ_TIMELINE,
    "AMDGPU_INFO_ACCEL_WORKING": d.ACCEL_WORKING,
    "AMDGPU_INFO_TIMESTAMP": d.TIMESTAMP,
    "AMDGPU_INFO_FW_VERSION": d.FW_VERSION,
    "AMDGPU_INFO_VRAM_USAGE": d.VRAM_USAGE,
    "AMDGPU_INFO_GTT_USAGE": d.GTT_USAGE,
    "AMDGPU_INFO_VRAM_GTT": d.VRAM_GTT_SIZES,
    "AMDGPU_INFO_READ_MMR_REG": d.READ_MMR_REG,
    "AMDGPU_INFO_DEV_INFO": d.DEV_INFO,
    "AMDGPU_INFO_VIS_VRAM_USAGE": d.VIS_VRAM_USAGE,
    "AMDGPU_INFO_MEMORY": d.MEMORY,
    "AMDGPU_INFO_FW_GFX_RLC": d.FW_RLC,
    "AMDGPU_INFO_FW_GFX_MEC": d.FW_MEC,
    "AMDGPU_INFO_FW_SDMA": d.FW_SDMA,
    "AMDGPU_INFO_FW_TA": d.FW_TA,
    "AMDGPU_INFO_FW_VPE": max(d.FW_TYPES),
    "AMDGPU_INFO_MMR_SE_INDEX_MASK": d.MMR_INDEX_MASK,
    "AMDGPU_INFO_MMR_SH_INDEX_MASK": d.MMR_INDEX_MASK,
    "AMDGPU_INFO_MMR_SH_INDEX_SHIFT": d.MMR_SH_SHIFT,
    "AMDGPU_IDS_FLAGS_FUSION": d.IDS_FLAGS_FUSION,
    "AMDGPU_VRAM_TYPE_GDDR6": chip_data.VRAM_GDDR6,
    "AMDGPU_VRAM_TYPE_HBM": chip_data.VRAM_HBM,
    "AMDGPU_VRAM_TYPE_LPDDR5": chip_data.VRAM_LPDDR5,
    "AMDGPU_FAMILY_AI": chip_data.DRM_IDS[9, 4, 3][0],
    "AMDGPU_FAMILY_NV": chip_data.DRM_IDS[10, 3, 0][0],
    "AMDGPU_FAMILY_GC_11_0_0": chip_data.DRM_IDS[11, 0, 0][0],
    "AMDGPU_FAMILY_GC_11_0_1": chip_data.DRM_IDS[11, 0, 1][0],
    "AMDGPU_FAMILY_GC_11_5_0": chip_data.DRM_IDS[11, 5, 0][0],
    "AMDGPU_FAMILY_GC_12_0_0": chip_data.DRM_IDS[12, 0, 0][0],
}


def _drm_expected() -> dict[str, int]:
    """Expressions and numbers of the render node's ioctls."""
    found = dict(_DRM_CONSTANTS)
    for name, layout in _DRM_STRUCTS.items():
        if name != _GROWN:
            found[f"sizeof(struct {name})"] = layout.size
        found |= {
            f"offsetof(struct {name}, {member})": offset
            for member, offset in layout.offsets.items()
            if not member.startswith(("pad", "word"))
        }
    for union, words in (("read_mmr_reg", d.MMR_REG), ("query_fw", d.QUERY_FW)):
        for member, word in words.items():
            where = f"offsetof(struct drm_amdgpu_info, {union}.{member})"
            found[where] = d.INFO.offsets[word]
    for number, heap in enumerate(("vram", "cpu_accessible_vram", "gtt")):
        found[f"offsetof(struct drm_amdgpu_memory_info, {heap})"] = number * d.HEAP.size
    return found


def test_render_node_structs_and_constants_are_the_headers(tmp_path: Path) -> None:
    compilers = [
        compiler for compiler in COMPILERS.values()
        if compiler is not None and (compiler.include / _DRM_HEADER).exists()
    ]  # fmt: skip
    if not compilers:
        pytest.skip(LACKING["wheel"])
    expected = _drm_expected()
    for compiler in compilers:
        found = evaluate(compiler, str(compiler.include / _DRM_HEADER), tmp_path, list(expected))
        wrong = {
            name: (value, found[name]) for name, value in expected.items() if value != found[name]
        }
        check(not wrong, f"board, header of {compiler.include.name}: {wrong}")


def _expected(minor: int, text: str) -> dict[str, int]:
    """Expressions and numbers, as far as a header of that age has them."""
    found = {
        name: value for name, value in _CONSTANTS.items() if re.findall(r"\w+", name)[-1] in text
    }
    structs = {f"kfd_ioctl_{_STRUCTS.get(n, n)}_args": layout for n, layout in k.IOCTLS.values()}
    for name, layout in (structs | _OTHERS).items():
        if f"struct {name} {{" not in text:
            continue
        old_queue = "create_queue" in name and minor < OWN_MINOR
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
