"""CUDA's results as errors of this stack."""

from __future__ import annotations

from typing import Final

from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.cuda import abi

LOST_HINT: Final = (
    "CUDA refuses all work of this process on the GPU from now on: close the device, and start a "
    "new process"
)
_MEMORY_HINT: Final = "free tensors that are not needed, or work on smaller pieces"
_NEWER: Final = (
    "the driver is older than the compiler: install a newer driver, or an older compiler "
    "(pip install 'nvidia-cuda-nvrtc-cu12')"
)
_KINDS: Final[dict[int, tuple[type[DeviceError], str]]] = {
    1: (BadArgument, "report this call with the version of the driver"),
    3: (Unsupported, "open the device in the process that uses it: not before a fork"),
    34: (NotFound, "libcuda.so.1 is the toolkit's stub: install NVIDIA's driver"),
    36: (Unsupported, "install a newer driver of NVIDIA"),
    100: (NotFound, "nvidia-smi lists GPUs; CUDA_VISIBLE_DEVICES may hide them"),
    101: (NotFound, "nvidia-smi lists GPUs; CUDA_VISIBLE_DEVICES may hide them"),
    200: (MalformedInput, _NEWER),
    209: (Unsupported, _NEWER),
    218: (MalformedInput, _NEWER),
    222: (Unsupported, _NEWER),
    300: (MalformedInput, _NEWER),
    217: (Unsupported, "copy through the host"),
    500: (MalformedInput, "compile the kernel anew"),
    701: (Unsupported, "make workgroups smaller: the kernel needs too many registers"),
    712: (BadArgument, "these pages are registered with CUDA already: wrap them once"),
    800: (Denied, "ask the administrator for access to the GPU"),
    801: (Unsupported, "this GPU, driver or system does not have it"),
    803: (Unsupported, "the kernel module and libcuda are of different versions: reboot"),
    804: (Unsupported, "install NVIDIA's driver in place of the compatibility package"),
}


def error_of(
    call: str, code: int, name: str, *, nbytes: int = 0, queue: str = "", kernel: str = ""
) -> DeviceError:
    """The error for a result. `kernel` names what may have been running on `queue`."""
    message = f"{call}: {name} ({code})"
    if code == abi.OUT_OF_MEMORY:
        return OutOfMemory(message, requested=nbytes, used=0, cached=0, limit=0, hint=_MEMORY_HINT)
    if code in abi.FAULTS:
        what = f"; {kernel} ran or may have run" if kernel else ""
        return DeviceFault(
            f"work of {queue} failed, as {message} reports{what}", kind=name, kernel=kernel,
            queue=queue, hint=LOST_HINT,
        )  # fmt: skip
    if code in abi.HANGS:
        return Hang(f"{kernel or 'a kernel'} ran too long: {message}", queue=queue, hint=LOST_HINT)
    if code in abi.GONE:
        return DeviceGone(message, hint=LOST_HINT)
    if code == abi.DEVICE_UNAVAILABLE:
        return Busy(message, hint="nvidia-smi shows who uses it, and its compute mode")
    kind, hint = _KINDS.get(code, (DeviceError, "report this call with the version of the driver"))
    return kind(message, hint=hint)
