"""torch -> tensor -> torch without a copy: the same address on each side, writes seen by all.

    pip install -e '.[torch]'
    python examples/share_torch.py             # host memory
    python examples/share_torch.py cuda        # or mps: memory of a GPU that torch has

The CUDA device is not written yet: the program shows how it is asked for and what the answer is,
and torch copies to the host. The Metal one shares, and was never run on Apple hardware.
"""

from __future__ import annotations

from typing import Any

from unbound import terminal

if __name__ == "__main__":  # also while the rest is imported
    terminal.end_interrupts_in_one_line()

import tensor as xp
from drivers.base.errors import DeviceError

ROWS, COLUMNS = 3, 4
DEVICES = {"cpu": "CPU", "cuda": "CUDA", "mps": "METAL"}
"""torch's type of a device -> our name."""


def shared(theirs: Any) -> xp.Tensor:
    """torch's tensor as ours, by its pointer: with its strides and offset, of its storage.

    On mps the pointer of a storage is its MTLBuffer, so that an offset cannot be added to it: it
    is passed beside it, which `theirs.data_ptr()` is not.
    """
    return xp.from_blob(
        theirs.untyped_storage().data_ptr(), tuple(theirs.shape), theirs.dtype,
        DEVICES[theirs.device.type], theirs.stride(), theirs.storage_offset(), theirs,
    )  # fmt: skip


def on_the_host() -> None:
    """from_dlpack and from_blob, there and back."""
    import torch

    theirs = torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS)
    ours = xp.from_dlpack(theirs)
    back = torch.from_dlpack(ours)
    ours_va, _ = ours.numpy().__array_interface__["data"]
    print(f"torch {theirs.data_ptr():#x} -> tensor {ours_va:#x} -> torch {back.data_ptr():#x}")
    theirs[0, 0] = 100
    print(f"torch wrote 100: tensor {float(ours[0, 0])}, torch again {float(back[0, 0])}")
    back[0, 1] = 200
    print(f"the other wrote 200: tensor {float(ours[0, 1])}, torch {float(theirs[0, 1])}")
    column = shared(theirs[:, 1])
    print(f"a column: {column.numpy()}, its sum {float(xp.sum(column))}")


def on_a_gpu(kind: str) -> None:
    """By its pointer where our device is there; else torch's copy in host memory."""
    import torch

    theirs = torch.arange(ROWS * COLUMNS, dtype=torch.float32, device=kind)
    finish = torch.cuda.synchronize if kind == "cuda" else torch.mps.synchronize
    finish()
    try:
        ours = shared(theirs[COLUMNS:])
    except DeviceError as error:
        print(f"not shared: {error}")
        print(f"copied to the host: {xp.asarray(theirs[COLUMNS:].cpu().numpy()).numpy()}")
        return
    print(f"on {ours.device}: {ours.numpy()}")
    theirs[COLUMNS] = 100
    finish()  # no order is kept between torch's queue and ours
    print(f"torch wrote 100: tensor {float(ours[0])}")
    doubled = ours * 2
    try:
        print(f"twice of it, in torch: {torch.from_dlpack(doubled)}")
    except (BufferError, RuntimeError) as error:
        print(f"this torch takes no DLPack of {doubled.device}: {error}")


def main(arguments: list[str]) -> int:
    """Run on the kind of torch's device that is named, or in host memory."""
    kind = arguments[0] if arguments else "cpu"
    if kind not in DEVICES:
        print(f"{kind!r} is none of {', '.join(DEVICES)}")
        return 2
    if kind == "cpu":
        on_the_host()
    else:
        on_a_gpu(kind)
    return 0


if __name__ == "__main__":
    terminal.run(main, DeviceError)
