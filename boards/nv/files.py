"""Files of a machine with NVIDIA GPUs: device nodes, /proc/driver/nvidia, sysfs.

src: open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c; Linux Documentation/ABI sysfs-bus-pci
"""

from __future__ import annotations

from boards.machine.file_tree import FileTree, Folder
from boards.nv.hardware import NvGpu, NvHardware

CONTROL, UVM = "/dev/nvidiactl", "/dev/nvidia-uvm"
MAJOR, CONTROL_MINOR, UVM_MAJOR = 195, 255, 510
"""src: nv-chardev-numbers.h; UVM's major is chosen by the kernel"""
_CLASS = b"0x030000\n"


def node(gpu: NvGpu) -> str:
    """A GPU's device node."""
    return f"/dev/nvidia{gpu.index}"


def tree(hardware: NvHardware) -> FileTree:
    """Every file of the machine."""
    made = FileTree()
    version = hardware.version
    made.put(CONTROL)
    made.put(UVM)
    title = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64"
    made.put("/proc/driver/nvidia/version", f"{title}  {version}\n".encode())
    made.put("/proc/devices", b"Character devices:\n%3d nvidia\n%3d nvidiactl\n%3d nvidia-uvm\n"
             b"\nBlock devices:\n" % (MAJOR, MAJOR, UVM_MAJOR))  # fmt: skip
    made.put("/sys/module/nvidia/version", f"{version}\n".encode())
    made.put("/sys/module/nvidia_uvm/initstate", b"live\n")
    made.place("/sys/bus/pci/devices", Folder())
    for gpu in hardware.gpus:
        _gpu(made, gpu)
    return made


def _gpu(made: FileTree, gpu: NvGpu) -> None:
    made.put(node(gpu))
    uuid = gpu.uuid.hex()
    parts = (uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])
    made.put(
        f"/proc/driver/nvidia/gpus/{gpu.address}/information",
        f"Model: \t\t {gpu.chip.title}\nGPU UUID: \t GPU-{'-'.join(parts)}\n"
        f"Bus Type: \t PCIe\nBus Location: \t {gpu.address}\n"
        f"Device Minor: \t {gpu.index}\n".encode(),
    )
    folder = f"/sys/bus/pci/devices/{gpu.address}"
    made.put(f"{folder}/vendor", b"0x10de\n")
    made.put(f"{folder}/device", b"0x%04x\n" % gpu.chip.device_id)
    made.put(f"{folder}/class", _CLASS)
    made.link(f"{folder}/driver", "/sys/bus/pci/drivers/nvidia")
    made.place("/sys/bus/pci/drivers/nvidia", Folder())
