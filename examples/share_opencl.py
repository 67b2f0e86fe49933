"""pyopencl's array -> tensor -> numpy: one cl_mem, which pyopencl writes and our kernels read.

pip install -e '.[cl,cl-client]'
python examples/share_opencl.py            # CL_DEVICE chooses the platform
"""

from __future__ import annotations

from typing import Any

from unbound import terminal

if __name__ == "__main__":  # also while the rest is imported
    terminal.end_interrupts_in_one_line()

import numpy as np

import tensor as xp
from drivers.base.errors import DeviceError

COUNT = 8


def shared(theirs: Any, device: str) -> xp.Tensor:
    """pyopencl's array as a tensor, with its strides and offset."""
    size = theirs.dtype.itemsize
    return xp.from_blob(
        theirs.base_data.int_ptr, theirs.shape, theirs.dtype, device,
        [step // size for step in theirs.strides], theirs.offset // size, theirs,
    )  # fmt: skip


def main(device: str = "CL") -> None:
    """pyopencl works in our device's context: a cl_mem belongs to one."""
    import pyopencl as cl
    from pyopencl import array

    context = cl.Context.from_int_ptr(xp.native_handles(device)["cl_context"])
    queue = cl.CommandQueue(context)
    theirs = array.to_device(queue, np.arange(COUNT, dtype=np.float32))
    queue.finish()  # a blocking write frees the source, and may not yet be in the buffer
    ours = shared(theirs, device)
    print(f"cl_mem {theirs.base_data.int_ptr:#x} on {context.devices[0].name}: {ours.numpy()}")
    theirs.fill(7.0).finish()
    print(f"pyopencl wrote 7: {ours.numpy()}")
    print(f"and our kernel adds 1: {(ours + 1).numpy()}")


if __name__ == "__main__":
    terminal.run(lambda _: main(), DeviceError)
