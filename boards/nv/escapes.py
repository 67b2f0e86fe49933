"""ioctl(2) on /dev/nvidiactl and /dev/nvidiaN: numbers, sizes, which node they are for.

src: open-gpu-kernel-modules, kernel-open/nvidia/nv.c nvidia_ioctl(), escape.c RmIoctl(),
nv_escape.h, nv-ioctl-numbers.h
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from boards.machine import host
from boards.nv import status
from boards.nv.hardware import NvHardware
from boards.nv.open_files import NvFile
from boards.nv.rm import FindFile, Rm
from boards.nv.status import RmError
from boards.nv.user import load

_MAGIC, _MAGIC_SHIFT, _SIZE_SHIFT, _SIZE_MASK = ord("F"), 8, 16, 0x3FFF
_BYTE = 0xFF
CARD_INFO, REGISTER_FD, CHECK_VERSION, XFER = 200, 201, 210, 211
ALLOC_MEMORY, FREE, CONTROL, ALLOC = 0x27, 0x29, 0x2A, 0x2B
MAP_MEMORY, UNMAP_MEMORY, MAP_DMA, UNMAP_DMA = 0x4E, 0x4F, 0x57, 0x58
_MOST_XFER_BYTES = 16384
_STRICT, _RELAXED, _QUERY = ord("0"), ord("1"), ord("2")
_RECOGNIZED = 1
_NVIDIA = 0x10DE
_CONTROL_ONLY, _GPU_ONLY, _ANY = "control", "gpu", "any"
Run = Callable[[Rm, NvFile, SimpleNamespace], None]
_OBJECTS: Mapping[int, tuple[tuple[str, ...], str, Run]] = {
    ALLOC_MEMORY: (("NVOS02_FD",), _GPU_ONLY, Rm.alloc_memory),
    FREE: (("NVOS00",), _CONTROL_ONLY, Rm.free),
    CONTROL: (("NVOS54",), _CONTROL_ONLY, Rm.control),
    ALLOC: (("NVOS21", "NVOS64"), _CONTROL_ONLY, Rm.alloc),
    MAP_MEMORY: (("NVOS33_FD",), _CONTROL_ONLY, Rm.map_memory),
    UNMAP_MEMORY: (("NVOS34",), _CONTROL_ONLY, Rm.unmap_memory),
    MAP_DMA: (("NVOS46",), _CONTROL_ONLY, Rm.map_dma),
    UNMAP_DMA: (("NVOS47",), _CONTROL_ONLY, Rm.unmap_dma),
}


class Escapes:
    """Those of one process."""

    def __init__(self, hardware: NvHardware, rm: Rm, file_of: FindFile) -> None:
        self._hardware, self._rm, self._file_of = hardware, rm, file_of

    def ioctl(self, file: NvFile, request: int, argument: bytearray) -> None:
        """One request; its size is in its number. Raises: OSError."""
        number, nbytes = request & _BYTE, request >> _SIZE_SHIFT & _SIZE_MASK
        if request >> _MAGIC_SHIFT & _BYTE != _MAGIC:
            raise OSError(errno.EINVAL, f"request {request:#x} is not of the driver's type")
        if nbytes > len(argument):
            raise OSError(errno.EFAULT, f"{nbytes} bytes, of which {len(argument)} are there")
        if number != XFER:
            self._run(file, number, argument, nbytes)
            return
        record = self._hardware.records["xfer"]
        if nbytes != record.nbytes:
            raise OSError(errno.EINVAL, f"XFER_CMD of {nbytes} bytes")
        args = record.load(argument)
        if args.size > _MOST_XFER_BYTES:
            raise OSError(errno.EINVAL, f"XFER_CMD with {args.size} bytes")
        data = load(args.ptr, args.size)
        self._run(file, args.cmd, data, args.size)
        host.copy_to_user(args.ptr, bytes(data))

    def _run(self, file: NvFile, number: int, data: bytearray, nbytes: int) -> None:
        if file.gpu is not None and file.gpu.lost:
            raise OSError(errno.EINVAL, "the GPU is lost")
        if number == CARD_INFO:
            self._card_info(file, data, nbytes)
        elif number == CHECK_VERSION:
            self._check_version(file, data, nbytes)
        elif number == REGISTER_FD:
            self._register_fd(file, data, nbytes)
        elif number in _OBJECTS:
            self._object(file, number, data, nbytes)
        else:
            self._hardware.find("escape that is not modelled", f"{number:#x}")
            raise OSError(errno.EINVAL, f"escape {number:#x}")

    def _object(self, file: NvFile, number: int, data: bytearray, nbytes: int) -> None:
        names, node, run = _OBJECTS[number]
        record = next((r for r in map(self._hardware.records.__getitem__, names)
                       if r.nbytes == nbytes), None)  # fmt: skip
        if record is None:
            self._hardware.find("escape with a struct of another size", f"{names[0]}: {nbytes}")
            raise OSError(errno.EINVAL, f"{names[0]} of {nbytes} bytes")
        if (node == _GPU_ONLY) == file.control:
            self._hardware.find("escape on the wrong node", f"{number:#x} on {file.path}")
            raise OSError(errno.EINVAL, f"escape {number:#x} is not for {file.path}")
        args = record.load(data)
        args.status = status.OK
        try:
            run(self._rm, file, args)
        except RmError as error:
            args.status = error.status
            self._hardware.event("RM refuses", escape=number, why=str(error))
        record.store(data, args)

    # Escapes of the module itself

    def _card_info(self, file: NvFile, data: bytearray, nbytes: int) -> None:
        """CARD_INFO: one struct for each GPU."""
        record = self._hardware.records["card_info"]
        if not file.control or nbytes // record.nbytes < len(self._hardware.gpus):
            raise OSError(errno.EINVAL, "CARD_INFO on another node, or without room")
        data[:nbytes] = bytes(nbytes)
        for gpu in self._hardware.gpus:
            part = bytearray(record.nbytes)
            args = record.load(part)
            args.valid, args.bus, args.gpu_id = 1, gpu.bus, gpu.gpu_id
            args.vendor_id, args.device_id = _NVIDIA, gpu.chip.device_id
            args.fb_size, args.minor_number = gpu.vram.nbytes, gpu.index
            record.store(part, args)
            data[gpu.index * record.nbytes : (gpu.index + 1) * record.nbytes] = part

    def _check_version(self, file: NvFile, data: bytearray, nbytes: int) -> None:
        """CHECK_VERSION_STR. src: osapi.c rm_perform_version_check()"""
        record = self._hardware.records["version"]
        if not file.control or nbytes != record.nbytes:
            raise OSError(errno.EINVAL, f"CHECK_VERSION_STR of {nbytes} bytes on {file.path}")
        args = record.load(data)
        asked = args.versionString.partition(b"\0")[0]
        args.reply = _RECOGNIZED
        mine = self._hardware.version.encode()
        same = asked == mine
        args.versionString = mine
        if args.cmd not in (_STRICT, _RELAXED, _QUERY, 0):
            raise OSError(errno.EINVAL, f"CHECK_VERSION_STR command {args.cmd:#x}")
        if args.cmd in (_STRICT, 0) and not same:
            args.reply = 0
        record.store(data, args)
        if not args.reply:
            raise OSError(errno.EINVAL, f"the driver is {self._hardware.version}")

    def _register_fd(self, file: NvFile, data: bytearray, nbytes: int) -> None:
        """REGISTER_FD: a GPU's file acts for a control file."""
        record = self._hardware.records["register_fd"]
        if nbytes != record.nbytes or file.control:
            raise OSError(errno.EINVAL, f"REGISTER_FD of {nbytes} bytes on {file.path}")
        control = self._file_of(record.load(data).ctl_fd)
        if control is None or not control.control:
            raise OSError(errno.EINVAL, "REGISTER_FD wants a control file")
        if file.registered is not None:
            raise OSError(errno.EINVAL, f"{file.path} is registered")
        file.registered = control
