"""What VFIO's and iommufd's headers must say for our declarations to be right.

`python -m tests.abi.vfio_header LINUX` prints the numbers that a C compiler finds in a kernel
source's headers, and their sha256; vfio_headers.json keeps them for Linux 6.12.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from drivers.base.ioctl import Struct
from drivers.pci import config, iommufd_abi, vfio_abi
from tests.c_compiler import any_compiler

VFIO_STRUCTS: dict[type[Struct], str] = {
    vfio_abi.GroupStatus: "vfio_group_status",
    vfio_abi.DeviceInfo: "vfio_device_info",
    vfio_abi.RegionInfo: "vfio_region_info",
    vfio_abi.IrqInfo: "vfio_irq_info",
    vfio_abi.IrqSetHeader: "vfio_irq_set",
    vfio_abi.Type1Info: "vfio_iommu_type1_info",
    vfio_abi.MapDmaArgs: "vfio_iommu_type1_dma_map",
    vfio_abi.UnmapDmaArgs: "vfio_iommu_type1_dma_unmap",
    vfio_abi.CapHeader: "vfio_info_cap_header",
    vfio_abi.IovaRange: "vfio_iova_range",
    vfio_abi.SparseArea: "vfio_region_sparse_mmap_area",
    vfio_abi.HotResetDevice: "vfio_pci_dependent_device",
}
CDEV_STRUCTS: dict[type[Struct], str] = {
    vfio_abi.BindIommufdArgs: "vfio_device_bind_iommufd",
    vfio_abi.AttachPtArgs: "vfio_device_attach_iommufd_pt",
    vfio_abi.DetachPtArgs: "vfio_device_detach_iommufd_pt",
}
"""Since Linux 6.6."""
GROWN = {f"sizeof(struct {name})" for name in CDEV_STRUCTS.values()}
"""src: Linux 7.2, vfio.h: a PASID to attach, a token to bind, behind what was there."""
CDEV_NUMBERS = {
    "VFIO_DEVICE_BIND_IOMMUFD", "VFIO_DEVICE_ATTACH_IOMMUFD_PT", "VFIO_DEVICE_DETACH_IOMMUFD_PT",
}  # fmt: skip
IOMMUFD_STRUCTS: dict[type[Struct], str] = {
    iommufd_abi.DestroyArgs: "iommu_destroy",
    iommufd_abi.IoasAllocArgs: "iommu_ioas_alloc",
    iommufd_abi.IoasIovaRangesArgs: "iommu_ioas_iova_ranges",
    iommufd_abi.IoasMapArgs: "iommu_ioas_map",
    iommufd_abi.IoasUnmapArgs: "iommu_ioas_unmap",
    iommufd_abi.IovaRange: "iommu_iova_range",
}
MEMBERS = {
    ("RegionInfo", "region_bytes"): "size",
    ("MapDmaArgs", "nbytes"): "size",
    ("UnmapDmaArgs", "nbytes"): "size",
    ("SparseArea", "nbytes"): "size",
    ("DestroyArgs", "nbytes"): "size",
    ("IoasAllocArgs", "nbytes"): "size",
    ("IoasIovaRangesArgs", "nbytes"): "size",
    ("IoasIovaRangesArgs", "reserved"): "__reserved",
    ("IoasMapArgs", "nbytes"): "size",
    ("IoasMapArgs", "reserved"): "__reserved",
    ("IoasUnmapArgs", "nbytes"): "size",
}
PADDING = {("Type1Info", "pad"), ("DeviceInfo", "pad")}
"""Which older headers do not name."""


def layout(structs: dict[type[Struct], str]) -> dict[str, int]:
    found = {}
    for args, name in structs.items():
        found[f"sizeof(struct {name})"] = args.SIZE
        for field in args.FIELDS:
            if (args.__name__, field.name) in PADDING:
                continue
            member = MEMBERS.get((args.__name__, field.name), field.name)
            found[f"offsetof(struct {name}, {member})"] = field.offset
            found[f"sizeof(((struct {name} *)0)->{member})"] = field.layout.size
    return found


def vfio_constants() -> dict[str, int]:
    prefixes = {
        "VFIO_GROUP_FLAGS_": vfio_abi.GroupFlag, "VFIO_DEVICE_FLAGS_": vfio_abi.DeviceFlag,
        "VFIO_REGION_INFO_FLAG_": vfio_abi.RegionFlag, "VFIO_IRQ_INFO_": vfio_abi.IrqFlag,
        "VFIO_IRQ_SET_": vfio_abi.IrqSet, "VFIO_DMA_MAP_FLAG_": vfio_abi.MapFlag,
        "VFIO_DMA_UNMAP_FLAG_": vfio_abi.UnmapFlag, "VFIO_IOMMU_INFO_": vfio_abi.InfoFlag,
    }  # fmt: skip
    found = {p + flag.name: int(flag) for p, kind in prefixes.items() for flag in kind if flag.name}
    found |= {f"VFIO_PCI_{i.name}_REGION_INDEX": int(i) for i in vfio_abi.RegionIndex}
    found |= {f"VFIO_PCI_{i.name}_IRQ_INDEX": int(i) for i in vfio_abi.IrqIndex}
    return found | {
        "VFIO_API_VERSION": vfio_abi.API_VERSION,
        "VFIO_TYPE1v2_IOMMU": vfio_abi.TYPE1V2_IOMMU,
        "VFIO_BASE": vfio_abi.BASE,
        "VFIO_TYPE": ord(vfio_abi.GROUP),
        "VFIO_REGION_INFO_CAP_SPARSE_MMAP": vfio_abi.REGION_CAP_SPARSE_MMAP,
        "VFIO_REGION_INFO_CAP_TYPE": vfio_abi.REGION_CAP_TYPE,
        "VFIO_REGION_INFO_CAP_MSIX_MAPPABLE": vfio_abi.REGION_CAP_MSIX_MAPPABLE,
        "VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE": vfio_abi.TYPE1_CAP_IOVA_RANGE,
        "VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL": vfio_abi.TYPE1_CAP_DMA_AVAIL,
        "offsetof(struct vfio_irq_set, data)": vfio_abi.OneIrqArgs.eventfd.offset,
    }


CONFIG = {
    "PCI_COMMAND": config.COMMAND, "PCI_COMMAND_IO": config.COMMAND_IO,
    "PCI_COMMAND_MEMORY": config.COMMAND_MEMORY, "PCI_COMMAND_MASTER": config.COMMAND_MASTER,
    "PCI_COMMAND_INTX_DISABLE": config.COMMAND_NO_INTX, "PCI_CAP_ID_PM": config.CAP_PM,
    "PCI_CAP_ID_MSI": config.CAP_MSI, "PCI_CAP_ID_VNDR": config.CAP_VENDOR,
    "PCI_CAP_ID_EXP": config.CAP_EXPRESS, "PCI_CAP_ID_MSIX": config.CAP_MSIX,
    "PCI_EXT_CAP_ID_DSN": config.EXT_SERIAL, "PCI_EXT_CAP_ID_ACS": config.EXT_ACS,
    "PCI_EXT_CAP_ID_ATS": config.EXT_ATS, "PCI_EXT_CAP_ID_SRIOV": config.EXT_SRIOV,
    "PCI_EXT_CAP_ID_REBAR": config.EXT_REBAR, "PCI_CFG_SPACE_EXP_SIZE": config.SPACE_BYTES,
    "PCI_CFG_SPACE_SIZE": config.OLD_SPACE_BYTES, "PCI_STD_HEADER_SIZEOF": config.HEADER_BYTES,
}  # fmt: skip


def everything() -> dict[str, int]:
    """C expression -> the number our declarations say it has, in Linux 6.12's headers."""
    flags = {f"IOMMU_IOAS_MAP_{f.name}": int(f) for f in iommufd_abi.MapFlag}
    structs = layout(VFIO_STRUCTS) | layout(CDEV_STRUCTS) | layout(IOMMUFD_STRUCTS)
    return vfio_abi.NUMBERS | iommufd_abi.NUMBERS | structs | vfio_constants() | flags


HEADERS = ("include/uapi/linux/vfio.h", "include/uapi/linux/iommufd.h")


def facts(linux: Path) -> dict[str, object]:
    """What vfio_headers.json keeps of a kernel source."""
    paths = [(linux / header).resolve() for header in HEADERS]
    digests = {
        header: hashlib.sha256(path.read_bytes()).hexdigest()
        for header, path in zip(HEADERS, paths, strict=True)
    }
    expressions = list(everything())
    with tempfile.TemporaryDirectory() as name:
        installed = [Path(name, path.name) for path in paths]
        for path, plain in zip(paths, installed, strict=True):
            plain.write_text(path.read_text().replace("__user ", ""))  # as headers_install does
        values = any_compiler().values(list(map(str, installed)), expressions, Path(name))
    numbers = dict(zip(expressions, values, strict=True))
    return {"release": "Linux 6.12", "sha256": digests, "values": numbers}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(Path(sys.argv[1])), indent=1) + "\n")
