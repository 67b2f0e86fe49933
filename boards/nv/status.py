"""NV_STATUS: what the resource manager answers inside a struct, apart from errno.

src: open-gpu-kernel-modules 595.45.04, src/common/sdk/nvidia/inc/nvstatuscodes.h
"""

from __future__ import annotations

OK = 0x00
BUFFER_TOO_SMALL = 0x02
GPU_IS_LOST = 0x0F
GPU_UUID_NOT_FOUND = 0x12
ILLEGAL_ACTION = 0x16
IN_USE = 0x17
INSERT_DUPLICATE_NAME = 0x19
INSUFFICIENT_RESOURCES = 0x1A
INSUFFICIENT_PERMISSIONS = 0x1B
INVALID_ADDRESS = 0x1E
INVALID_ARGUMENT = 0x1F
INVALID_CHANNEL = 0x21
INVALID_CLASS = 0x22
INVALID_CLIENT = 0x23
INVALID_COMMAND = 0x24
INVALID_DEVICE = 0x26
INVALID_FLAGS = 0x29
INVALID_LIMIT = 0x2E
INVALID_OBJECT = 0x31
INVALID_OBJECT_HANDLE = 0x33
INVALID_OBJECT_PARENT = 0x36
INVALID_OFFSET = 0x37
INVALID_OWNER = 0x39
INVALID_PARAM_STRUCT = 0x3A
INVALID_STATE = 0x40
NO_MEMORY = 0x51
NOT_SUPPORTED = 0x56
OBJECT_NOT_FOUND = 0x57
OTHER_DEVICE_FOUND = 0x5A
OUT_OF_RANGE = 0x5B
PAGE_TABLE_NOT_AVAIL = 0x5D
STATE_IN_USE = 0x63
TIMEOUT = 0x65
UVM_ADDRESS_IN_USE = 0x68
GENERIC = 0xFFFF
NOTHING_TO_DO = 0x10006
"""NV_WARN_NOTHING_TO_DO."""


class RmError(Exception):
    """A request that is answered with a status; the ioctl itself succeeds."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(f"status {status:#x}: {why}")
        self.status = status
