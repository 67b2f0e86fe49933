"""Programs for the tests of `python -m boards`: text, as a user would write it."""

ADD = """
import sys
import numpy as np
import tensor as xp

for name in sys.argv[2:] or ["AMD"]:
    a = np.arange(int(sys.argv[1]), dtype=np.float32)
    x = xp.asarray(a, device=name)
    np.testing.assert_array_equal((x + x).numpy(), a + a)
    print("added on", name)
"""

_KERNEL = """
from compilers.amd.smoke import BLOCK, firmware
from tensor import engine

device = engine.device("AMD")
program = device.load(firmware("smoke", device.arch))
a, b, c = (device.alloc(4 * BLOCK) for _ in range(3))
"""

UNINITIALISED = (
    _KERNEL
    + """
device.launch(program, [a, b, c, BLOCK], 1)  # nobody has written a and b
device.synchronize()
"""
)

UNMAPPED = (
    _KERNEL
    + """
for buffer in (a, b):
    device.copy_in(buffer, memoryview(bytes(4 * BLOCK)))
device.launch(program, [a, b, 0x1000, BLOCK], 1)
device.synchronize()
"""
)

STATUS = "import sys; sys.exit({!r})"

BAD_COPY = (
    _KERNEL
    + """
from queues.amd import sdma

ring = device.copies
with ring.lock:
    ring.emit([sdma.copy_linear(ring.engine, dst_addr=0x2000, src_addr=a.gpu_va, count=64)])
device.synchronize()
"""
)

NO_WAIT = """
from dataclasses import replace
import numpy as np
from compilers.amd.smoke import BLOCK, firmware
from tensor import engine

device = engine.device("AMD")
made = firmware("smoke", device.arch)
words = np.frombuffer(made.image, np.uint32).copy()
words[words & 0xFFFF0000 == 0xBF890000] = 0xBF800000  # every s_waitcnt becomes s_nop
program = device.load(replace(made, image=words.tobytes()))
buffers = [device.alloc(4 * BLOCK) for _ in range(3)]
for buffer in buffers:
    device.copy_in(buffer, memoryview(bytes(4 * BLOCK)))
device.launch(program, [*buffers, BLOCK], 1)
device.synchronize()
"""
