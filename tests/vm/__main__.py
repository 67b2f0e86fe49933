"""`make vm`: fetch a kernel and QEMU once, boot a Linux around the board, report.

python -m tests.vm                     # the cache is .vm, or unbound-vm in $XDG_CACHE_HOME
python -m tests.vm --board gfx1201 --refresh
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NoReturn

from boards.amd.pci.firmware_set import NAMES
from tests.debian import CannotRun, fetched
from tests.vm import amdgpu, amdgpu_vfio, cabled, firmware, image, rocr
from tests.vm.lab import Lab, LabError
from tests.vm.machine import Boot, Outcome, Places, run
from unbound import terminal

QEMU_SUITE, KERNEL_SUITE = "sid", "trixie"
"""QEMU's vfio-user client came with 10.1, which no release of Debian has yet."""
QEMU, KERNEL, SHELL = "qemu-system-x86", "linux-image-cloud-amd64", "busybox-static"
# TCG and not KVM: it is the same on every machine, and what is tested waits for the board anyway.
BOOTS = (Boot("no IOMMU: the BARs alone", "bars", limit_s=600),)
VFIO = "vfio"
AMDGPU_KERNEL, AMDGPU = "linux-image-amd64", "amdgpu"
"""The cloud kernel has no amdgpu; this one has."""
AMDGPU_BOARDS = ("gfx1100", "gfx1102", "gfx1201")
"""Boards of the scenario with the real amdgpu; the first one has all checks."""
DONE, FAILED, NOT_HERE, STOPPED = 0, 1, 77, 130
"""77 says "skipped", as automake's tests do; 130 is what a shell makes of Ctrl-C."""


def cache_folder() -> Path:
    """Where packages and images are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base) / "unbound-vm" if os.path.isabs(base) else image.ROOT / ".vm"


def prepare(cache: Path, board: str, *, refresh: bool) -> Places:
    """Fetch what is not there yet, and build the guest's file system. Raises: CannotRun."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CannotRun(f"this is {platform.system()} on {platform.machine()}, not Linux on x86_64")
    qemu, kernel = cache / "qemu", cache / "kernel"
    packages = fetched(qemu, QEMU_SUITE, lambda a, to: a.fetch_whole(QEMU, to), refresh=refresh)
    packages += fetched(
        kernel,
        KERNEL_SUITE,
        lambda a, to: a.fetch_alone([*a.depends(KERNEL, "linux-image-"), SHELL], to),
        refresh=refresh,
    )
    named = [text for text in packages if text.startswith(("linux-image-", f"{QEMU} "))]
    print(f"vm: {', '.join(named)}", flush=True)
    image.build(cache / "initrd", board, cache)
    vmlinuz = sorted(kernel.glob("boot/vmlinuz-*"))
    if not vmlinuz:
        raise CannotRun(f"no kernel in {kernel}: try again with --refresh")
    return Places(qemu, vmlinuz[-1], cache / "initrd")


def table(outcome: Outcome) -> str:
    """Every check of a boot."""
    lines = [f"{outcome.boot.name} ({outcome.seconds:.0f} s)"]
    lines += [f"  {kind}  {text}" for kind, text in outcome.lines]
    if outcome.trouble:
        lines.append(f"  FAIL  {outcome.trouble}")
    return "\n".join(lines)


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """One at a time in a cache. Raises: CannotRun."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotRun(f"another one is at work in {cache}") from error
        yield


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="gfx1100", choices=NAMES)
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    parser.add_argument(
        "--only", choices=[*(boot.checks for boot in BOOTS), cabled.USB, VFIO, AMDGPU]
    )
    parser.add_argument(
        "--amdgpu-boards", nargs="+", default=AMDGPU_BOARDS, choices=NAMES, metavar="BOARD",
        help="boards for the real amdgpu (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="how often our driver takes the GPU from amdgpu, on every board "
                        f"(default: {amdgpu.ROUNDS} on the first, 1 on others)")  # fmt: skip
    parser.add_argument("--whole", action="store_true", help="all checks on every board")
    parser.add_argument("--firmware", default=firmware.MADE_UP,
                        choices=(firmware.MADE_UP, firmware.DEBIAN),
                        help="what amdgpu loads: the boards' own files, or AMD's")  # fmt: skip
    parser.add_argument("--show-log", action="store_true", help="print the consoles too")
    parser.add_argument(
        "--optional", action="store_true", help="a machine that cannot run it is no failure"
    )
    return parser.parse_args()


def boot_all(args: argparse.Namespace, cache: Path, log: IO[bytes]) -> list[Outcome]:
    """Prepare, boot, and show what came of each boot when it ends. Raises: CannotRun."""
    began = time.monotonic()
    if args.only in (cabled.USB, VFIO, AMDGPU):
        return []
    places = prepare(cache, args.board, refresh=args.refresh)
    print(f"vm: prepared in {time.monotonic() - began:.0f} s; now it boots", flush=True)
    outcomes: list[Outcome] = []
    for boot in BOOTS:
        if args.only in (None, boot.checks):
            outcomes.append(run(boot, args.board, places, log))
            print(table(outcomes[-1]), flush=True)
    return outcomes


def on_usb(args: argparse.Namespace, cache: Path, log: IO[bytes]) -> list[Outcome]:
    """The guest whose GPU is behind a cable. Raises: CannotRun."""
    if args.only not in (None, cabled.USB):
        return []
    kernel = full_kernel(cache, refresh=args.refresh)
    places = cabled.places(cache, kernel, args.board, refresh=args.refresh)
    outcome = run(cabled.BOOT, args.board, places, log)
    print(table(outcome), flush=True)
    return [outcome]


def full_kernel(cache: Path, *, refresh: bool) -> Path:
    """Where Debian's kernel with all its modules is, and QEMU beside it. Raises: CannotRun."""
    kernel = cache / "kernel-amdgpu"
    fetched(cache / "qemu", QEMU_SUITE, lambda a, to: a.fetch_whole(QEMU, to))
    packages = fetched(
        kernel,
        KERNEL_SUITE,
        lambda a, to: a.fetch_alone([*a.depends(AMDGPU_KERNEL, "linux-image-"), SHELL], to),
        refresh=refresh,
    )
    print(f"vm: {', '.join(text for text in packages if 'linux-image' in text)}", flush=True)
    return kernel


def amdgpu_places(cache: Path, boards: Sequence[str], own: Path | None, *, refresh: bool) -> Places:
    """Debian's kernel with its amdgpu.ko, and a file system for these boards. Raises: CannotRun."""
    kernel = full_kernel(cache, refresh=refresh)
    modules = image.kernel_modules(kernel, [AMDGPU, *amdgpu_vfio.MODULES])
    if not any(name == f"{AMDGPU}.ko" for name, _ in modules):
        raise CannotRun(f"no amdgpu.ko in {kernel}: try again with --refresh")
    initrd = cache / "initrd-amdgpu"
    image.python_image(initrd)
    image.checkout_image(initrd, modules, boards, cache, "amdgpu_init", own)
    return Places(cache / "qemu", sorted(kernel.glob("boot/vmlinuz-*"))[-1], initrd)


def _rocr(initrd: Path, args: argparse.Namespace) -> str:
    """Put Debian's ROCr into the guest, where it can be had; its version, or ""."""
    try:
        return rocr.add(initrd, args.amdgpu_boards)
    except CannotRun as error:
        print(f"vm: ROCr is not run in the guest: {error}", flush=True)
        return ""


def with_amdgpu(args: argparse.Namespace, cache: Path, log: IO[bytes]) -> bool:
    """The scenarios of the real amdgpu.ko; whether all passed. Raises: CannotRun."""
    wanted = [name for name in (VFIO, AMDGPU) if args.only in (None, name)]
    if not wanted:
        return True
    boards = dict.fromkeys([args.board, *args.amdgpu_boards])
    own = firmware.folder(cache, args.firmware, refresh=args.refresh)
    again = args.refresh and args.only is not None  # else it was fetched for the guest on USB
    places = amdgpu_places(cache, list(boards), own, refresh=again)
    version = _rocr(places.initrd, args) if AMDGPU in wanted else ""
    passed = True
    for name in wanted:
        with TemporaryDirectory() as folder:
            lab = Lab(places, Path(folder), name == VFIO, own, "" if name == VFIO else version)
            with ended(lab, log):
                passed &= _scenario(name, lab, args)
    return passed


def _scenario(name: str, lab: Lab, args: argparse.Namespace) -> bool:
    try:
        if name == VFIO:
            return amdgpu_vfio.run(lab, args.board)
        return amdgpu.run(lab, args.amdgpu_boards, args.rounds, whole=args.whole)
    except LabError as error:
        print(f"  FAIL  {name}: {error}", flush=True)
        return False


@contextmanager
def ended(lab: Lab, log: IO[bytes]) -> Iterator[None]:
    """The guest ends with the block; what it and the board said goes to the log."""
    try:
        yield
    finally:
        lab.close()
        for path in sorted(lab.folder.glob("*")):
            if path.suffix in ("", ".log") and path.is_file():
                log.write(f"\n===== amdgpu: {path.name} =====\n".encode())
                log.write(path.read_bytes())


def stop(number: int, frame: object) -> NoReturn:
    """A signal that would end this program at once ends it as Ctrl-C does: tidily."""
    raise KeyboardInterrupt


def main() -> int:
    """0: every check passed; 1: one did not; 77: this machine cannot run it, and why."""
    args, cache = arguments(), cache_folder()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        with alone(cache), (cache / "vm.log").open("w+b") as log:
            outcomes = boot_all(args, cache, log) + on_usb(args, cache, log)
            passed = with_amdgpu(args, cache, log)
    except CannotRun as error:
        print(f"vm: not run here: {error}", file=sys.stderr)
        return DONE if args.optional else NOT_HERE
    except KeyboardInterrupt:
        print("vm: stopped", file=sys.stderr)
        return STOPPED
    if args.show_log:
        print((cache / "vm.log").read_text(errors="replace"))
        print("\n".join(map(table, outcomes)))
    failed = not passed or any(outcome.failed for outcome in outcomes)
    print(f"vm: {'FAILED' if failed else 'passed'}; all that was said: {cache / 'vm.log'}")
    return FAILED if failed else DONE


if __name__ == "__main__":
    terminal.run(lambda _: main())
