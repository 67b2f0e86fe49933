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
_RESET_HINT: Final = (
    "another library of this process has reset the GPU (cudaDeviceReset): close the device and "
    "open it again; its memory and kernels are gone"
)
_MPS_HINT: Final = "ask the administrator of MPS (nvidia-cuda-mps-control), or stop using it"
_MPS_FULL: Final = "close other programs that use MPS, or run without it"
_CAPTURE: Final = (
    "another library captures a graph of CUDA (torch.cuda.graph, for example): use this device "
    "before or after that"
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
    102: (Denied, "this virtual GPU has no licence for CUDA: ask its administrator"),
    205: (Unsupported, "pin fewer pages: raise the limit of locked memory (ulimit -l), or copy"),
    221: (NotFound, "libnvidia-ptxjitcompiler.so.1 is missing: install all of NVIDIA's driver"),
    223: (Unsupported, "CUDA_DISABLE_PTX_JIT is set: unset it"),
    304: (DeviceError, "see the kernel log (dmesg); in a container, check its limits and nodes"),
    400: (BadArgument, "what it names is gone: close the device, and open it again"),
    711: (Unsupported, "a GPU has at most 8 peers: copy to the others, or through the host"),
    713: (BadArgument, "another library has unregistered these pages: wrap them again"),
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
    802: (Busy, "wait, and see that nvidia-fabricmanager runs on machines with NVSwitch"),
    804: (Unsupported, "install NVIDIA's driver in place of the compatibility package"),
    805: (Busy, _MPS_HINT),
    806: (DeviceError, _MPS_HINT),
    807: (Busy, "its MPS server starts again: try later"),
    808: (Busy, _MPS_FULL),
    809: (Busy, _MPS_FULL),
    **dict.fromkeys((900, 901, 905, 906, 907, 908), (Unsupported, _CAPTURE)),
    999: (
        DeviceError,
        "after a suspend: close all programs that use CUDA, reload nvidia-uvm "
        "(rmmod, modprobe), or restart; otherwise see dmesg",
    ),
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
        return DeviceGone(message, hint=_RESET_HINT if code in abi.RESET else LOST_HINT)
    if code == abi.DEVICE_UNAVAILABLE:
        return Busy(message, hint="nvidia-smi shows who uses it, and its compute mode")
    kind, hint = _KINDS.get(code, (DeviceError, "report this call with the version of the driver"))
    return kind(message, hint=hint)
