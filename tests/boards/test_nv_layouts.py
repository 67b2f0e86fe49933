"""Structs of NVIDIA's boards against what gcc made of the headers of four releases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from boards.nv.layouts import records
from tests.support import check

COMPILED = json.loads((Path(__file__).parents[1] / "abi" / "nv_headers.json").read_text("utf-8"))
BRANCHES = {"535.288.01": 535, "550.163.01": 550, "570.144": 570, "580.95.05": 580,
            "590.48.01": 590, "595.45.04": 595}  # fmt: skip
NAMES = {
    "NVOS00_PARAMETERS": "NVOS00", "NVOS21_PARAMETERS": "NVOS21", "NVOS34_PARAMETERS": "NVOS34",
    "NVOS54_PARAMETERS": "NVOS54", "nv_ioctl_nvos02_parameters_with_fd": "NVOS02_FD",
    "nv_ioctl_nvos33_parameters_with_fd": "NVOS33_FD", "nv_ioctl_card_info_t": "card_info",
    "nv_ioctl_register_fd_t": "register_fd", "nv_ioctl_rm_api_version_t": "version",
    "NV0080_ALLOC_PARAMETERS": "NV0080_ALLOC", "NV2080_ALLOC_PARAMETERS": "NV2080_ALLOC",
    "NV83DE_ALLOC_PARAMETERS": "NV83DE_ALLOC", "NVB0B5_ALLOCATION_PARAMETERS": "NVB0B5_ALLOC",
    "NV_CHANNEL_ALLOC_PARAMS": "CHANNEL", "NV_CTXSHARE_ALLOCATION_PARAMETERS": "CTXSHARE",
    "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS": "CHANNEL_GROUP",
    "NV_HOPPER_USERMODE_A_PARAMS": "HOPPER_USERMODE", "NV_MEMORY_ALLOCATION_PARAMS": "MEMORY",
    "NV_VASPACE_ALLOCATION_PARAMETERS": "VASPACE",
    "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS": "ID_INFO_V2",
    "NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS": "CLASSLIST",
    "NV2080_CTRL_FB_GET_INFO_V2_PARAMS": "FB_INFO_V2",
    "NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS": "ENGINES_V2",
    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS": "GID_INFO",
    "NV2080_CTRL_PERF_GET_CURRENT_PSTATE_PARAMS": "CURRENT_PSTATE",
    "NV2080_CTRL_THERMAL_SYSTEM_EXECUTE_V2_PARAMS": "THERMAL_EXECUTE_V2",
    "NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS": "UTIL_SAMPLES_V2",
    "NV2080_CTRL_GR_GET_INFO_PARAMS": "GR_INFO",
    "NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS": "SM_ERROR_STATES",
    "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS": "MMU_FAULT_INFO",
    "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS": "TSG_SCHEDULE",
    "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS": "WORK_SUBMIT_TOKEN",
}  # fmt: skip
SAME_NAME = re.compile(r"(UVM_\w+)_PARAMS")
SIZE, OFFSET = re.compile(r"sizeof\((\w+)\)"), re.compile(r"offsetof\((\w+), ([\w.]+)\)")
RENAMED = {"gpu_uuid": "uuid", "gpuUuid": "uuid", "gpuUuidA": "uuidA", "gpuUuidB": "uuidB",
           "perGpuAttributes": "attributes", "smErrorStateArray": "states"}  # fmt: skip


def name_of(struct: str) -> str:
    """What the board calls a struct of the headers; "" where it has none."""
    same = SAME_NAME.fullmatch(struct)
    return NAMES.get(struct, same.group(1) if same else "")


@pytest.mark.parametrize("version", BRANCHES)
def test_sizes_and_offsets_are_the_compilers(version) -> None:
    made = records(BRANCHES[version])
    sizes = offsets = 0
    for fact, value in COMPILED[version].items():
        size, offset = SIZE.fullmatch(fact), OFFSET.fullmatch(fact)
        if size and name_of(size[1]) in made:
            check(made[name_of(size[1])].nbytes == value, f"{fact} is {value}")
            sizes += 1
        elif offset and name_of(offset[1]) in made:
            record, member = made[name_of(offset[1])], offset[2].rpartition(".")[2]
            found = {one.name: one.offset for one in record.members}
            member = RENAMED.get(member, member)
            if member in found:
                check(found[member] == value, f"{fact} is {value}")
                offsets += 1
    check(sizes >= 42 and offsets >= 208, f"only {sizes} sizes and {offsets} offsets")
