"""Files of a machine with an Adreno: device nodes, and sysfs of the kernel that it runs.

src: downstream kgsl.c, kgsl_pwrctrl.c, adreno_sysfs.c (KGSL); Linux 6.12 msm_drv.c, and sysfs of a
DRM device on a platform bus (msm)
"""

from __future__ import annotations

from boards.machine.file_tree import FileTree, Folder
from boards.qcom.hardware import KGSL, AdrenoGpu, AdrenoHardware

NODE, RENDER, CARD, DMA_HEAP = (
    "/dev/kgsl-3d0", "/dev/dri/renderD128", "/dev/dri/card0", "/dev/dma_heap/system",
)  # fmt: skip
KGSL_MAJOR, DRM_MAJOR, RENDER_MINOR, HEAP_MAJOR = 510, 226, 128, 249
_CLASS = "/sys/class/kgsl/kgsl-3d0"
_KHZ = 1000
_FAMILY_SHIFT, _FAMILY_43 = 24, 0x43


def tree(hardware: AdrenoHardware) -> FileTree:
    """Every file of the machine."""
    made = FileTree()
    gpu = hardware.gpus[0]
    if hardware.options.iface == KGSL:
        _kgsl(made, gpu)
    else:
        _msm(made, gpu)
    return made


def numbers(hardware: AdrenoHardware) -> dict[str, tuple[int, int]]:
    """Major and minor of every device node."""
    if hardware.options.iface == KGSL:
        return {NODE: (KGSL_MAJOR, 0), DMA_HEAP: (HEAP_MAJOR, 0)}
    return {RENDER: (DRM_MAJOR, RENDER_MINOR), CARD: (DRM_MAJOR, 0)}


def _kgsl(made: FileTree, gpu: AdrenoGpu) -> None:
    chip = gpu.chip
    made.put(NODE)
    made.put(DMA_HEAP)
    clock = b"%d\n" % chip.max_hz
    for name, text in {
        "gpu_model": f"{chip.title}\n".encode(), "gpuclk": clock, "max_gpuclk": clock,
        "gpu_available_frequencies": clock, "max_pwrlevel": b"0\n", "num_pwrlevels": b"1\n",
        "max_clock_mhz": b"%d\n" % (chip.max_hz // 1_000_000), "temp": b"40000\n",
        "gpubusy": b"      0       0\n", "gpu_busy_percentage": b"0 %\n",
        "ft_policy": b"0xC2\n", "ft_pagefault_policy": b"0x0\n", "reset_count": b"0\n",
        "chipid": b"0x%08x\n" % chip.chip_id, "gpuid": b"%d\n" % chip.gpu_id,
    }.items():  # fmt: skip
        made.put(f"{_CLASS}/{name}", text)
    made.place("/sys/class/drm", Folder())


def _compatible(gpu_id: int, chip_id: int) -> bytes:
    """As device trees name a chip: by its number, and since the 740 by its id.

    src: Linux 6.12 adreno_device.c find_chipid(); arch/arm64/boot/dts/qcom sdm845.dtsi, sm8550.dtsi
    """
    if chip_id >> _FAMILY_SHIFT >= _FAMILY_43:
        return b"qcom,adreno-%08x" % chip_id
    return b"qcom,adreno-%d.%d" % (gpu_id, chip_id & 0xFF)


def _msm(made: FileTree, gpu: AdrenoGpu) -> None:
    chip = gpu.chip
    made.put(RENDER)
    made.put(CARD)
    device = "/sys/devices/platform/soc@0/ae00000.display-subsystem"
    driver = "/sys/bus/platform/drivers/msm-mdss"
    made.place(driver, Folder())
    made.link(f"{device}/driver", driver)
    event = b"DRIVER=msm-mdss\nOF_COMPATIBLE_0=qcom,sdm845-mdss\nOF_COMPATIBLE_N=1\n"
    made.put(f"{device}/uevent", event)
    for name, minor in (("renderD128", RENDER_MINOR), ("card0", 0)):
        folder = f"/sys/class/drm/{name}"
        made.put(f"{folder}/dev", b"%d:%d\n" % (DRM_MAJOR, minor))
        made.link(f"{folder}/device", device)
        made.link(f"/sys/dev/char/{DRM_MAJOR}:{minor}", folder)
    soc = "/sys/devices/platform/soc@0/5000000.gpu"
    made.put(f"{soc}/uevent", b"DRIVER=adreno\nOF_COMPATIBLE_0=%s\n"
             b"OF_COMPATIBLE_1=qcom,adreno\nOF_COMPATIBLE_N=2\n"
             % _compatible(chip.gpu_id, chip.chip_id))  # fmt: skip
    made.link("/sys/bus/platform/drivers/adreno/5000000.gpu", soc)
    for name in ("max_freq", "cur_freq", "available_frequencies"):
        made.put(f"{soc}/devfreq/5000000.gpu/{name}", b"%d\n" % chip.max_hz)
    made.put("/sys/module/msm/initstate", b"live\n")
