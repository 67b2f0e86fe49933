"""What msm_kgsl.h and msm_drm.h must say for our declarations, as C expressions and numbers.

`python -m tests.abi.qcom_header KGSL|MSM|BIND HEADER.h` prints the numbers that a C compiler finds
in one header, and the header's sha256; qcom_headers.json keeps them for the releases named in it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

from drivers.base.ioctl import Ioctl, Struct
from drivers.qcom.kgsl import abi as kgsl
from drivers.qcom.msm import abi as msm
from drivers.qcom.msm import bind
from tests.c_compiler import CCompiler, any_compiler

STRUCTS: dict[str, dict[type[Struct], str]] = {
    "KGSL": {
        kgsl.DevInfo: "kgsl_devinfo", kgsl.Property: "kgsl_device_getproperty",
        kgsl.Constraint: "kgsl_device_constraint",
        kgsl.WaitTimestamp: "kgsl_device_waittimestamp_ctxtid",
        kgsl.ReadTimestamp: "kgsl_cmdstream_readtimestamp_ctxtid",
        kgsl.ContextCreate: "kgsl_drawctxt_create", kgsl.ContextDestroy: "kgsl_drawctxt_destroy",
        kgsl.ObjectAlloc: "kgsl_gpuobj_alloc", kgsl.ObjectFree: "kgsl_gpuobj_free",
        kgsl.ObjectInfo: "kgsl_gpuobj_info", kgsl.ObjectImport: "kgsl_gpuobj_import",
        kgsl.ObjectSync: "kgsl_gpuobj_sync", kgsl.SyncObject: "kgsl_gpuobj_sync_obj",
        kgsl.GpuCommand: "kgsl_gpu_command", kgsl.MemoryInfo: "kgsl_gpumem_get_info",
        kgsl.FaultReport: "kgsl_fault_report", kgsl.FaultList: "kgsl_fault",
        kgsl.PageFaultReport: "kgsl_pagefault_report",
    },
    "MSM": {
        msm.ParamCall: "drm_msm_param", msm.GemNew: "drm_msm_gem_new",
        msm.GemInfo: "drm_msm_gem_info", msm.SubmitBo: "drm_msm_gem_submit_bo",
        msm.SubmitCmd: "drm_msm_gem_submit_cmd", msm.GemSubmit: "drm_msm_gem_submit",
        msm.WaitFence: "drm_msm_wait_fence", msm.SubmitQueue: "drm_msm_submitqueue",
        msm.QueueQuery: "drm_msm_submitqueue_query",
    },
    "BIND": {bind.VmBind: "drm_msm_vm_bind", bind.BindSync: "drm_msm_syncobj"},
}  # fmt: skip
MEMBERS = {"tv_sec": "timeout.tv_sec", "tv_nsec": "timeout.tv_nsec"}
"""Where our names are not the C members' names; `nbytes` is `size` everywhere."""
OF_AN_OPERATION = {"op", "handle", "obj_offset", "iova", "range", "op_flags", "pad"}
"""What struct drm_msm_vm_bind has in its first operation."""
NOT_HERE = {"DRM_IOCTL_GEM_CLOSE", "DRM_IOCTL_SYNCOBJ_CREATE", "DRM_IOCTL_SYNCOBJ_DESTROY",
            "DRM_IOCTL_SYNCOBJ_WAIT"}  # fmt: skip
"""Of drm.h."""
ENUMS: dict[str, dict[str, type[IntEnum | IntFlag]]] = {
    "KGSL": {
        "KGSL_PROP_": kgsl.Prop, "KGSL_GPUMEM_CACHE_": kgsl.CacheOp,
        "KGSL_FAULT_TYPE_": kgsl.FaultType, "KGSL_PAGEFAULT_TYPE_": kgsl.PageFaultType,
    },
    "MSM": {
        "MSM_PARAM_": msm.Param, "MSM_BO_": msm.BoFlag, "MSM_INFO_": msm.Info,
        "MSM_SUBMIT_BO_": msm.SubmitBoFlag,
    },
    "BIND": {},
}  # fmt: skip
CONSTANTS: dict[str, Mapping[str, int]] = {
    "KGSL": {
        "KGSL_MEMFLAGS_GPUREADONLY": kgsl.MemFlag.GPUREADONLY,
        "KGSL_MEMFLAGS_USE_CPU_MAP": kgsl.MemFlag.USE_CPU_MAP,
        "KGSL_MEMFLAGS_IOCOHERENT": kgsl.MemFlag.IOCOHERENT,
        "KGSL_CACHEMODE_WRITECOMBINE << KGSL_CACHEMODE_SHIFT": kgsl.MemFlag.WRITECOMBINE,
        "KGSL_CACHEMODE_UNCACHED << KGSL_CACHEMODE_SHIFT": kgsl.MemFlag.UNCACHED,
        "KGSL_CACHEMODE_WRITEBACK << KGSL_CACHEMODE_SHIFT": kgsl.MemFlag.WRITEBACK,
        "(unsigned)KGSL_GPUMEM_CACHE_RANGE": kgsl.CACHE_RANGE,
        "KGSL_MEMALIGN_SHIFT": kgsl.ALIGN_SHIFT,
        "KGSL_CONTEXT_SAVE_GMEM": kgsl.ContextFlag.SAVE_GMEM,
        "KGSL_CONTEXT_NO_GMEM_ALLOC": kgsl.ContextFlag.NO_GMEM_ALLOC,
        "KGSL_CONTEXT_PREAMBLE": kgsl.ContextFlag.PREAMBLE,
        "KGSL_CONTEXT_NO_FAULT_TOLERANCE": kgsl.ContextFlag.NO_FAULT_TOLERANCE,
        "KGSL_CONTEXT_PWR_CONSTRAINT": kgsl.ContextFlag.PWR_CONSTRAINT,
        "KGSL_CONTEXT_TYPE_CL << KGSL_CONTEXT_TYPE_SHIFT": kgsl.ContextFlag.TYPE_CL,
        "KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN << KGSL_CONTEXT_PREEMPT_STYLE_SHIFT":
            kgsl.ContextFlag.PREEMPT_FINEGRAIN,
        "KGSL_CONTEXT_FAULT_INFO": kgsl.ContextFlag.FAULT_INFO,
        "KGSL_CONTEXT_PRIORITY_SHIFT": kgsl.PRIORITY_SHIFT,
        "KGSL_CMDBATCH_SUBMIT_IB_LIST": kgsl.SUBMIT_IB_LIST,
        "KGSL_CMDLIST_IB": kgsl.CMDLIST_IB,
        "sizeof(struct kgsl_command_object)": kgsl.OBJECT_BYTES,
        "KGSL_USER_MEM_TYPE_ADDR": kgsl.USER_MEM_ADDR,
        "KGSL_USER_MEM_TYPE_DMABUF": kgsl.USER_MEM_DMABUF,
        "KGSL_CTX_STAT_NO_ERROR": kgsl.ResetStat.NO_ERROR,
        "KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT": kgsl.ResetStat.GUILTY,
        "KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT": kgsl.ResetStat.INNOCENT,
        "KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT": kgsl.ResetStat.UNKNOWN,
        "KGSL_CONSTRAINT_PWRLEVEL": kgsl.CONSTRAINT_PWRLEVEL,
        "KGSL_CONSTRAINT_PWR_MAX": kgsl.PWR_MAX,
        "KGSL_TIMESTAMP_RETIRED": kgsl.TIMESTAMP_RETIRED,
        **{f"offsetof(struct kgsl_command_object, {name})": at for name, at in (
            ("offset", 0), ("gpuaddr", 8), ("size", 16), ("flags", 24), ("id", 28),
        )},
    },
    "MSM": {
        "MSM_PIPE_3D0": msm.PIPE_3D0, "MSM_SUBMIT_NO_IMPLICIT": msm.NO_IMPLICIT,
        "MSM_SUBMIT_CMD_BUF": msm.CMD_BUF, "MSM_SUBMITQUEUE_PARAM_FAULTS": msm.QUEUE_FAULTS,
    },
    "BIND": {
        "MSM_PARAM_EN_VM_BIND": bind.EN_VM_BIND, "MSM_SUBMITQUEUE_VM_BIND": bind.BIND_QUEUE,
        "MSM_VM_BIND_OP_UNMAP": bind.OP_UNMAP, "MSM_VM_BIND_OP_MAP": bind.OP_MAP,
        "sizeof(struct drm_msm_vm_bind_op)": 40,
    },
}  # fmt: skip
MODULES: dict[str, Any] = {"KGSL": kgsl, "MSM": msm, "BIND": bind}


def expectations(kind: str) -> dict[str, int]:
    """C expression -> the number our declarations say it has."""
    known = (one for one in vars(MODULES[kind]).values() if isinstance(one, Ioctl))
    found = {f"(unsigned){one.name}": one.request for one in known if one.name not in NOT_HERE}
    for args, name in STRUCTS[kind].items():
        found[f"sizeof(struct {name})"] = args.SIZE
        for field in args.FIELDS:
            member = MEMBERS.get(field.name, field.name)
            if (name, member) == ("kgsl_gpumem_get_info", "pad"):
                member = "__pad"
            if name == "drm_msm_vm_bind" and member in OF_AN_OPERATION:
                member = f"op.{member.removeprefix('op_')}"
            if member == "nbytes":
                member = "sizebytes" if name == "kgsl_device_getproperty" else "size"
            found[f"offsetof(struct {name}, {member})"] = field.offset
            found[f"sizeof(((struct {name} *)0)->{member})"] = field.layout.size
    for prefix, kinds in ENUMS[kind].items():
        found |= {prefix + name: int(value) for name, value in kinds.__members__.items()}
    return found | {name: int(value) for name, value in CONSTANTS[kind].items()}


def evaluate(compiler: CCompiler, header: str, folder: Path, kind: str) -> dict[str, int]:
    """What a C compiler makes of each expression under one header."""
    expressions = list(expectations(kind))
    user = folder / "user.h"
    user.write_text("#define __user\n")
    values = compiler.values([str(user), header], expressions, folder)
    return dict(zip(expressions, values, strict=True))


def facts(kind: str, header: Path) -> dict[str, object]:
    """What qcom_headers.json keeps of one header."""
    with tempfile.TemporaryDirectory() as name:
        values = evaluate(any_compiler(), str(header), Path(name), kind)
        return {"sha256": hashlib.sha256(header.read_bytes()).hexdigest(), "values": values}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(sys.argv[1], Path(sys.argv[2]).resolve()), indent=1) + "\n")
