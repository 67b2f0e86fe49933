"""What /proc and /sys show of memory and processes in a machine with PCI functions."""

from __future__ import annotations

from boards.machine.file_tree import File, FileTree, Folder, Link, Node
from boards.machine.frames import pagemap
from boards.machine.open_files import OpenFile, ReaderFile
from boards.machine.pci.kernel import Kernel
from boards.machine.pci.world import PciWorld

BOOT_ID = "3c7f0d52-9e1b-4b53-8f0e-51d2a7c4be10"
_HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB"


class ProcFiles:
    """Files of the machine and of its processes."""

    def __init__(self, tree: FileTree, kernel: Kernel, huge_pages: int, *, privileged: bool):
        self._kernel, self._privileged = kernel, privileged
        self.processes: dict[int, PciWorld] = {}
        tree.put("/proc/sys/kernel/random/boot_id", f"{BOOT_ID}\n".encode())
        tree.put("/proc/sys/vm/nr_hugepages", b"%d\n" % huge_pages)
        tree.put("/proc/iomem", self._iomem)
        tree.put(f"{_HUGE}/nr_hugepages", b"%d\n" % huge_pages)
        tree.put(f"{_HUGE}/free_hugepages", lambda: b"%d\n" % kernel.frames.free_huge)
        tree.put("/etc/os-release", b"ID=debian\n")
        proc = tree.find("/proc")
        if isinstance(proc, Folder):
            proc.more = self._folders

    def _iomem(self) -> bytes:
        lines = ["00001000-0009ffff : System RAM", "00100000-bfffffff : System RAM"]
        for slot in self._kernel.slots.values():
            for bar, start in sorted(slot.starts.items(), key=lambda item: item[1]):
                end = start + slot.bar_bytes(bar) - 1
                lines.append(f"{start:08x}-{end:08x} : {slot.address}")
                if slot.driver:
                    lines.append(f"  {start:08x}-{end:08x} : {slot.driver}")
        return "\n".join([*lines, "100000000-2fffffffff : System RAM\n"]).encode()

    def _folders(self) -> dict[str, Node]:
        found: dict[str, Node] = {"1": _init()}
        found |= {str(pid): self._folder(process) for pid, process in self.processes.items()}
        return found

    def _folder(self, process: PciWorld) -> Folder:
        return Folder(
            {
                "comm": File(b"python3\n"),
                "maps": File(lambda: _maps(process)),
                "fd": Folder(more=lambda: _descriptors(process)),
                "pagemap": File(opens=lambda asker, flags: self._pagemap(process)),
            }
        )

    def _pagemap(self, process: PciWorld) -> OpenFile:
        path = f"/proc/{process.pid}/pagemap"
        frames, shown = self._kernel.frames, self._privileged

        def read(nbytes: int, offset: int) -> bytes:
            return pagemap(process.pid, frames, process.huge, offset, nbytes, shown=shown)

        return ReaderFile(path, read)


def _init() -> Folder:
    return Folder({"comm": File(b"init\n"), "maps": File(b""), "fd": Folder()})


def _descriptors(process: PciWorld) -> dict[str, Node]:
    return {str(n): Link(path) for n, path in enumerate(process.open_paths())}


def _maps(process: PciWorld) -> bytes:
    """src: Linux Documentation/filesystems/proc.rst: address perms offset dev inode path"""
    lines = [
        f"{va:08x}-{va + nbytes:08x} rw-s 00000000 00:15 7 {path}\n"
        for path, va, nbytes in process.spans()
    ]
    return "".join(lines).encode()
