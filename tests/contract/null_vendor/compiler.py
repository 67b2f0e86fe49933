"""The made-up vendor's compiler: a kernel's number is its machine code."""

from __future__ import annotations

from typing import Final

from compilers.ir import Kernel
from drivers.base.contracts import Arg, Binary, Device, Resources
from tests.contract.null_vendor.machine import CODE, CODE_BYTES

ARCH: Final = "null1"


def assemble(kernel: Kernel, device: Device) -> Binary:
    """Code for the made-up GPU."""
    CODE.append(kernel)
    image = (len(CODE) - 1).to_bytes(CODE_BYTES, "little")
    shared = [ref for ref in kernel.locals if ref.space == "shared"]
    needs = Resources(
        block=kernel.block,
        max_block=kernel.block,
        shared_bytes=sum(ref.size * ref.dtype.itemsize for ref in shared),
        args=tuple(Arg(8 * number, 8, True) for number in range(len(kernel.params))),
    )
    return Binary(device.arch, kernel.name, image, 0, resources=needs)
