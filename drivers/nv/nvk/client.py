"""A client of NVIDIA's resource manager (RM): objects by handle, and controls on them.

The params of an object or a control are at a pointer in its ioctl. They are copied to a page of
this client's own for the call, and back; `lock` is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Final, TypeAlias, TypeVar

from drivers.base.arena import Arena
from drivers.base.contracts import Region, World
from drivers.base.errors import MalformedInput, UseAfterFree, during
from drivers.base.ioctl import Struct
from drivers.nv.nvk.abi import Abi
from drivers.nv.nvk.allocations import RmClass
from drivers.nv.nvk.controls import Control, PlainControl
from drivers.nv.nvk.escapes import (
    RM_ALLOC,
    RM_ALLOC_MEMORY,
    RM_CONTROL,
    RM_FREE,
    RmAlloc,
    RmAllocMemory,
    RmControl,
    RmFree,
)
from drivers.nv.nvk.status import check_status

ARENA_BYTES: Final = 64 << 10
_MOST_LIST_BYTES: Final = 32 << 10
"""Of a list that params point at: the params themselves are behind it."""
_WORD_BYTES: Final = 4
_FIRST_HANDLE: Final = 0x5500_0000
"""Of objects whose handle the caller has to choose; RM's own are elsewhere."""
S = TypeVar("S", bound=Struct)
ListCall: TypeAlias = Callable[[int], object]
"""A control, given the address of its list."""


class RmClient:
    """The client behind one open /dev/nvidiactl."""

    def __init__(self, world: World, ctl_fd: int, abi: Abi, arena: Region) -> None:
        self.world, self.ctl_fd, self.abi, self._arena = world, ctl_fd, abi, Arena(arena)
        self.lock = RLock()
        self.device_fd = -1
        """An open /dev/nvidiaN: RM pins memory of this process through it alone.
        # src: src/nvidia/arch/nvalloc/unix/src/escape.c NV_ACTUAL_DEVICE_ONLY()"""
        self.handle = 0
        self.forked = False
        """Whether this is a child of the process whose client it is: everything is the parent's."""
        self._next = _FIRST_HANDLE

    def after_fork(self) -> None:
        """In a child: a thread that is not here may hold the lock."""
        self.lock, self.forked = RLock(), True
        self._arena.after_fork()

    def check_process(self) -> None:
        """Raises: UseAfterFree in a child of the process that opened it."""
        if self.forked:
            raise UseAfterFree(
                "this client of NVIDIA's driver belongs to the process that was forked",
                hint="open a device of its own in every process, after the fork",
            )

    def new_handle(self) -> int:
        """A handle for an object that the caller has to number."""
        with self.lock:
            self._next += 1
            return self._next

    def open(self) -> None:
        """Create the client itself, in which all of its objects are."""
        self.handle = self._alloc("a client", 0, RmClass.NV01_ROOT_CLIENT, None, 0)

    def alloc(self, what: str, parent: int, kind: int, args: Struct | None = None) -> int:
        """A new object, by its handle; `args` is filled with what RM answers. Raises: see status.

        Raises: OutOfMemory, Unsupported, Busy, Denied, DeviceGone, BadArgument.
        """
        return self._alloc(what, parent, kind, args, self.handle)

    def _alloc(self, what: str, parent: int, kind: int, args: Struct | None, root: int) -> int:
        self.check_process()
        with self.lock, during(f"allocating {what}"):
            call = RmAlloc(h_root=root, h_object_parent=parent, h_class=int(kind))
            if args is None:
                RM_ALLOC(self.world, self.ctl_fd, call)
                answer = b""
            else:
                with self._arena.piece(args.raw) as piece:
                    call.p_alloc_parms, call.params_size = piece.cpu_va, args.SIZE
                    RM_ALLOC(self.world, self.ctl_fd, call)
                    answer = piece.read()
            nbytes = int(getattr(args, "size", 0)) if args is not None else 0
            check_status(call.status, f"class {int(kind):#06x}", nbytes)
            if args is not None:
                args.raw[:] = answer
            handle: int = call.h_object_new
            if not handle:
                raise MalformedInput("RM answered success without a handle", hint="see dmesg")
        return handle

    def alloc_memory(self, what: str, device: int, cpu_va: int, nbytes: int, flags: int) -> int:
        """An object for pages that this process has at `cpu_va`. Raises: as `alloc`."""
        self.check_process()
        handle = self.new_handle()
        with during(f"pinning {what}"):
            call = RmAllocMemory(
                h_root=self.handle, h_object_parent=device, h_object_new=handle,
                h_class=int(RmClass.NV01_MEMORY_SYSTEM_OS_DESCRIPTOR), flags=int(flags),
                p_memory=cpu_va, limit=nbytes - 1, fd=-1,
            )  # fmt: skip
            RM_ALLOC_MEMORY(self.world, self.device_fd, call)
            check_status(call.status, f"{nbytes:#x} bytes", nbytes)
        return handle

    def free(self, handle: int, parent: int = 0) -> None:
        """Free an object with everything in it. In a child of the process: nothing."""
        if self.forked:
            return
        call = RmFree(h_root=self.handle, h_object_parent=parent, h_object_old=handle)
        RM_FREE(self.world, self.ctl_fd, call)
        check_status(call.status, f"freeing object {handle:#x}")

    def control(self, handle: int, control: Control, args: S) -> S:
        """One control on an object; `args` is filled with the answer. Raises: as `alloc`."""
        self.check_process()
        with self.lock, during(control.name), self._arena.piece(args.raw) as piece:
            call = RmControl(
                h_client=self.handle, h_object=handle, cmd=control.cmd,
                params=piece.cpu_va, params_size=args.SIZE,
            )  # fmt: skip
            RM_CONTROL(self.world, self.ctl_fd, call)
            check_status(call.status, f"object {handle:#x}")
            args.raw[:] = piece.read()
        return args

    def plain_control(self, handle: int, control: PlainControl) -> int:
        """The status of a control that takes nothing. Raises: what ioctl(2) says."""
        self.check_process()
        with during(control.name):
            call = RmControl(h_client=self.handle, h_object=handle, cmd=control.cmd)
            RM_CONTROL(self.world, self.ctl_fd, call)
            status: int = call.status
        return status

    def with_list(self, words: Sequence[int], call: ListCall) -> list[int]:
        """Run a control whose params point at a list of 32-bit words; the list afterwards."""
        nbytes = len(words) * _WORD_BYTES
        if nbytes > _MOST_LIST_BYTES:
            raise MalformedInput(f"a list of {len(words)} words from RM", hint="see dmesg")
        with self.lock:
            packed = b"".join(word.to_bytes(_WORD_BYTES, "little") for word in words)
            with self._arena.piece(packed) as piece:
                call(piece.cpu_va)
                raw = piece.read()
        return list(memoryview(raw).cast("I"))

    def close(self) -> None:
        """Free the client and all of its objects."""
        handle, self.handle = self.handle, 0
        if handle and not self.forked:
            call = RmFree(h_root=handle, h_object_old=handle)
            RM_FREE(self.world, self.ctl_fd, call)
            check_status(call.status, "freeing the client")
