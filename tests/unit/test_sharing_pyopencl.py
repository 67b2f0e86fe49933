"""pyopencl's arrays as tensors, and tensors as its buffers: PoCL and Intel's runtime."""

from __future__ import annotations

import gc
import runpy
from pathlib import Path

import numpy as np
import pytest

import tensor as xp
from tensor import engine
from tests.dlpack_maker import managed
from tests.opencl import PLATFORMS, opencl
from tests.support import check
from tests.unit.test_sharing_opencl import COUNT, numbers

ROOT = Path(__file__).resolve().parents[2]


def test_pyopencl_shares_its_arrays() -> None:
    array = pytest.importorskip("pyopencl.array", reason="pyopencl is not installed")
    cl = pytest.importorskip("pyopencl")
    for platform in PLATFORMS:
        with opencl(platform) as device, engine.adopted("CL", device):
            context = cl.Context.from_int_ptr(xp.native_handles("CL")["cl_context"])
            queue = cl.CommandQueue(context)
            theirs = array.to_device(queue, numbers())
            x = xp.from_blob(theirs.base_data.int_ptr, theirs.shape, theirs.dtype, "CL",
                             offset=theirs.offset // 4, owner=theirs)  # fmt: skip
            theirs.fill(3.0).finish()
            np.testing.assert_array_equal((x + 1).numpy(), np.full(COUNT, 4.0))
            struct = managed(x.__dlpack__(max_version=(1, 1)))
            back = cl.Buffer.from_int_ptr(struct.dl_tensor.data)
            found = np.empty(COUNT, np.float32)
            cl.enqueue_copy(queue, found, back).wait()
            np.testing.assert_array_equal(found, np.full(COUNT, 3.0))
            del theirs, x, struct, back
            gc.collect()


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyopencl.array", reason="pyopencl is not installed")
    shown = runpy.run_path(str(ROOT / "examples" / "share_opencl.py"))["main"]
    for platform in PLATFORMS:
        with opencl(platform) as device, engine.adopted("CL", device):
            shown()
            first, second, third = capsys.readouterr().out.splitlines()
            check("[0. 1. 2. 3. 4. 5. 6. 7.]" in first, first)
            check(second.endswith("[7. 7. 7. 7. 7. 7. 7. 7.]"), second)
            check(third.endswith("[8. 8. 8. 8. 8. 8. 8. 8.]"), third)
            gc.collect()
