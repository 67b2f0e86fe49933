"""The contracts every backend satisfies, read from the machine upwards.

World -> Region -> Device -> Buffer, Program -> CommandQueue, Signal, Graph.
A backend is one file or folder that satisfies these, one line in `drivers/registry.py`, and its
place in the order of `drivers/default.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, runtime_checkable

from drivers.base.binary import Arg as Arg
from drivers.base.binary import Binary as Binary
from drivers.base.binary import Fixup as Fixup
from drivers.base.binary import Resources as Resources
from drivers.base.library import Library
from drivers.base.limits import Grid as Grid
from drivers.base.limits import Limits as Limits
from drivers.base.memory_stats import MemoryStats as MemoryStats
from drivers.base.usb import Usb


class Region(Protocol):
    """A bounds-checked byte range of device or host memory. Offsets and sizes are in bytes."""

    nbytes: int
    cpu_va: int
    """Host virtual address of byte 0, or 0 when the region is not plain memory."""

    def read32(self, off: int) -> int: ...
    def write32(self, off: int, value: int) -> None: ...
    def read64(self, off: int) -> int: ...
    def write64(self, off: int, value: int) -> None: ...
    def read(self, off: int, nbytes: int) -> bytes: ...
    def write(self, off: int, data: bytes | memoryview) -> None: ...

    def view(self) -> memoryview:
        """The bytes themselves. Raises: Unsupported for registers."""

    def close(self) -> None: ...


class Machine(Protocol):
    """Operations on a machine. `fd` is a file descriptor of this machine, not of the process."""

    name: str

    def open(self, path: str, flags: int) -> int: ...
    def close(self, fd: int) -> None: ...
    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def readlink(self, path: str) -> str: ...
    def exists(self, path: str) -> bool: ...
    def access(self, path: str, mode: int) -> bool: ...

    def device_number(self, path: str) -> int:
        """Device number of the node that a path leads to (os.makedev); 0 for no device."""

    def owning_group(self, path: str) -> int:
        """Group number of the file that a path leads to."""

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        """Bytes are read and changed in place; a number below 2^31 is passed by value."""

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        """An ioctl whose result is a new descriptor, which becomes one of this machine."""

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        """All of them. Raises: MalformedInput when fewer come."""

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        """All of it, in one write. Raises: Unsupported when less is taken."""

    def eventfd(self) -> int:
        """A descriptor that a kernel driver may signal; initially not signalled."""

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        """Whether an `eventfd` was signalled within the time; if so it is reset."""

    def duplicate(self, fd: int) -> int:
        """A descriptor of this machine for a file that the process has open: fcntl(2)
        F_DUPFD_CLOEXEC. It stays valid whoever closes `fd`.
        """

    def poll(self, fd: int, timeout_s: float) -> bool:
        """Whether `fd` has something to read within the time (poll(2), POLLIN); nothing is read.

        Fences of a GPU (sync_file, DRM syncobj) and event descriptors of NVIDIA's driver. Raises:
        DeviceGone where the other end hung up.
        """

    def reserve(self, nbytes: int) -> Region:
        """Inaccessible address space, in which `mmap` may place mappings.

        Only `cpu_va`, `nbytes` and `close` of the region are valid. Its addresses are given back
        when it is closed and all mappings in it are gone.
        """

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Region | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        """Map `nbytes` of `fd`, or of fresh zeroed anonymous memory when `fd` is -1.

        `within` a reservation of this world, at its byte `at`; otherwise wherever there is room.
        A mapping in a reservation that is closed becomes reserved space again.
        `huge`: anonymous memory in 2 MiB pages, locked, all there at once, shared with forks.
        Raises: BadArgument when it would not fit the reservation, or covers another mapping;
        OutOfMemory.
        """

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        """Change what a mapping allows. Raises: Unsupported when both are asked for (W^X)."""

    def symbol(self, name: str) -> int:
        """Address of a C library function ("sinf", "futex"). Raises: NotFound."""

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        """Call machine code: `nargs` uint64 arguments, a uint64 result, the GIL released."""

    def monotonic_s(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class World(Machine, Protocol):
    """The only access to the machine; every failure of a method is a DeviceError."""

    kept: dict[str, object]
    """Objects of drivers with the lifetime of this world, such as once-per-process state."""

    def library(self, name: str) -> Library:
        """A shared library by its file name, "libcuda.so.1". Raises: NotFound; Unsupported."""

    def usb(self, bus: int, address: int, interface: int) -> Usb:
        """Open a USB device and claim an interface; sysfs has bus and address (busnum, devnum).

        Raises: NotFound, Denied, Busy (a kernel driver keeps it); Unsupported.
        """


class Buffer(Protocol):
    """Device memory, freed exactly once: by `free`, or with the last reference to it.

    Any use after `free` raises UseAfterFree.
    """

    nbytes: int
    gpu_va: int
    """Address for the device; the host's own may differ, or not exist."""

    @property
    def device(self) -> Device: ...

    @property
    def host(self) -> memoryview | None:
        """Its `nbytes` bytes where the host has them mapped, else None.

        Kernels' results are visible after `Device.synchronize`. Read-only unless writing in place
        is allowed; else `copy_in` writes. Raises: UseAfterFree.
        """

    def view(self) -> memoryview:
        """The same. Raises: Unsupported where the host has no mapping; UseAfterFree."""

    def map_to(self, other: Device) -> int:
        """Make the memory reachable from `other`; its address there.

        On its own device nothing is done. Raises: Unsupported, UseAfterFree.
        """

    def free(self) -> None: ...


class Program(Protocol):
    """A loaded binary, unloaded by `close` or with the last reference; `gpu_va` is its entry."""

    name: str
    gpu_va: int

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Param:
    """A graph argument left open at record time; `Graph.replay(values)` fills slot `index`."""

    index: int


Argument: TypeAlias = "Buffer | int | Param"


@runtime_checkable
class Signal(Protocol):
    """A value of `Limits.signal_bits` bits that only grows, and the time of its last change.

    Narrow signals do not wrap: a program that counts further creates a new one.
    """

    @property
    def value(self) -> int: ...

    @property
    def timestamp_ns(self) -> int: ...

    def set(self, value: int) -> None:
        """Host-side signal. Raises: BadArgument when `value` would decrease or is too wide."""

    def wait(self, value: int, timeout_s: float = ...) -> None:
        """Wait until `value` is reached; without `timeout_s`, until the device reports a hang.

        Raises: DeviceTimeout when the time is over, which stops no work; Hang, DeviceFault.
        """

    def close(self) -> None: ...


class Graph(Protocol):
    """A recording bound once into device memory and replayed with one doorbell."""

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Patch the words that changed, ring the doorbell. `values[i]` fills `Param(i)`."""

    def close(self) -> None: ...


class CommandQueue(Protocol):
    """A builder: nothing reaches the device before `submit` or `bind`.

    Every queue waits, signals, writes the time and orders with barriers. Steps of one queue run in
    order, except that a kernel may begin before the previous one has ended: a `barrier`, a `signal`
    or a `timestamp` between them prevents that.
    A step that is refused raises and leaves the builder unchanged.
    """

    can_exec: bool
    """Whether it takes kernels."""
    can_copy: bool
    """Whether it takes copies."""

    def wait(self, signal: Signal, value: int) -> Self: ...
    def barrier(self) -> Self: ...
    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
        *,
        shared_bytes: int = 0,
    ) -> Self:
        """Run `program` in `grid` workgroups of `block` lanes, along x, y and z.

        Without `block`: of the block it was compiled for. The CPU's work items are workgroups of
        one lane along x. `shared_bytes` of shared memory are added to what the kernel declares
        (HIP's and CUDA's `extern __shared__`). Raises: BadArgument above `Limits.max_grid`,
        `Limits.max_block`, `Limits.shared_bytes` or the kernel's own maximum; Unsupported where
        `can_exec` is False, and for `shared_bytes` of a device whose kernels declare all of it.
        """

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Copy the first `nbytes` of `src` to the first of `dst`, which may not overlap it.

        Raises: BadArgument outside the buffers; Unsupported where `can_copy` is False.
        """

    def timestamp(self, signal: Signal) -> Self: ...
    def signal(self, signal: Signal, value: int) -> Self: ...
    def submit(self) -> None: ...

    def bind(self) -> Graph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""


class Device(Protocol):
    """One opened device. A context manager; `drivers.open()` makes it, constructors do no I/O."""

    name: str
    arch: str
    limits: Limits
    compilers: tuple[str, ...]
    """Selectable compilers, the default first: ("LLVM", "CLANG")."""

    def alloc(self, nbytes: int) -> Buffer:
        """Uninitialised memory. Raises: OutOfMemory with the sizes."""

    def memory_stats(self) -> MemoryStats:
        """What buffers of this process hold of its memory now, and at most did."""

    def load(self, binary: Binary) -> Program:
        """Raises: Unsupported for another arch, or more than `limits` has; MalformedInput."""

    def launch(self, program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        """One kernel after everything submitted before: the fast path of eager work.

        As `exec(program, args, (grid, 1, 1))` of a compute queue. Raises: BadArgument,
        UseAfterFree, before anything runs.
        """

    def wrap(self, memory: memoryview) -> Buffer:
        """Host memory as a buffer, without a copy; see `Limits.uses_host_memory`.

        It is kept alive until the buffer is freed. Raises: Unsupported, BadArgument.
        """

    def new_signal(self, value: int = 0) -> Signal: ...
    def compute_queue(self) -> CommandQueue: ...
    def copy_queue(self) -> CommandQueue: ...
    def copy_in(self, dst: Buffer, src: memoryview) -> None: ...
    def copy_out(self, dst: memoryview, src: Buffer) -> None: ...
    def synchronize(self, timeout_s: float = ...) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


Firmware: TypeAlias = Callable[[str, str], Binary]
"""(kind, arch) -> Binary: source of code that a driver runs but does not compile itself."""


class Compiler(Protocol):
    """Source text to an object; `compilers/toolchains.py` renders, links and caches around it."""

    def identity(self) -> bytes:
        """Differs between two compilers that may generate different code."""

    def compile_object(self, source: str, arch: str, features: frozenset[str]) -> bytes:
        """A relocatable ELF object, or a linked code object.

        Raises: CompileError with log and source; Unsupported for an unknown arch.
        """
