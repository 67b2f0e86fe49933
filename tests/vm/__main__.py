"""`make vm`: fetch a kernel and QEMU once, boot a Linux around the board, report.

python -m tests.vm                     # the cache is .vm, or unbound-vm in $XDG_CACHE_HOME
python -m tests.vm --board gfx1201 --refresh
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from pathlib import Path

from tests.vm import image
from tests.vm.archive import Archive, CannotRun
from tests.vm.machine import Boot, Outcome, Places, run

QEMU_SUITE, KERNEL_SUITE = "sid", "trixie"
"""QEMU's vfio-user client came with 10.1, which no release of Debian has yet."""
QEMU, KERNEL, SHELL = "qemu-system-x86", "linux-image-cloud-amd64", "busybox-static"
# TCG and not KVM: it is the same on every machine, and what is tested waits for the board anyway.
BOOTS = (
    Boot("no IOMMU: the BARs alone", "bars", iommu=False, limit_s=300),
    Boot("an IOMMU: VFIO", "vfio", iommu=True, limit_s=300),
)
DONE, FAILED, NOT_HERE = 0, 1, 77
"""77 says "skipped", as automake's tests do."""


def cache_folder() -> Path:
    """Where packages and images are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base) / "unbound-vm" if os.path.isabs(base) else image.ROOT / ".vm"


def prepare(cache: Path, board: str, *, refresh: bool) -> Places:
    """Fetch what is not there yet, and build the guest's file system. Raises: CannotRun."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise CannotRun(f"this is {platform.system()} on {platform.machine()}, not Linux on x86_64")
    cache.mkdir(parents=True, exist_ok=True)
    qemu, kernel = cache / "qemu", cache / "kernel"
    if refresh:
        for folder in (qemu, kernel):
            shutil.rmtree(folder, ignore_errors=True)
    if not (qemu / "complete").exists():
        archive = Archive(cache / "apt-qemu", QEMU_SUITE)
        archive.update()
        archive.fetch_whole(QEMU, qemu)
        (qemu / "complete").touch()
    if not (kernel / "complete").exists():
        archive = Archive(cache / "apt-kernel", KERNEL_SUITE)
        archive.update()
        archive.fetch_alone([*archive.depends(KERNEL, "linux-image-"), SHELL], kernel)
        (kernel / "complete").touch()
    python, checkout = cache / "python.cpio", cache / "checkout.cpio"
    image.python_image(python)
    image.checkout_image(checkout, image.kernel_modules(kernel), board, cache)
    vmlinuz = sorted(kernel.glob("boot/vmlinuz-*"))
    if not vmlinuz:
        raise CannotRun(f"no kernel in {kernel}: try again with --refresh")
    return Places(qemu, vmlinuz[-1], (python, checkout), cache)


def table(outcomes: list[Outcome]) -> str:
    """Every check of every boot."""
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.boot.name} ({outcome.seconds:.0f} s)")
        lines += [f"  {kind}  {text}" for kind, text in outcome.lines]
        if outcome.trouble:
            lines.append(f"  FAIL  {outcome.trouble}")
    return "\n".join(lines)


def main() -> int:
    """0: every check passed; 1: one did not; 77: this machine cannot run it, and why."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="gfx1100")
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    parser.add_argument("--only", choices=[boot.checks for boot in BOOTS])
    args = parser.parse_args()
    cache = cache_folder()
    began = time.monotonic()
    try:
        places = prepare(cache, args.board, refresh=args.refresh)
        print(f"vm: prepared in {time.monotonic() - began:.0f} s")
        path = cache / "vm.log"
        with path.open("w+b") as log:
            wanted = [boot for boot in BOOTS if args.only in (None, boot.checks)]
            outcomes = [run(boot, args.board, places, log) for boot in wanted]
    except CannotRun as error:
        print(f"vm: not run here: {error}", file=sys.stderr)
        return NOT_HERE
    print(table(outcomes))
    failed = any(outcome.failed for outcome in outcomes)
    print(f"vm: {'FAILED' if failed else 'passed'}; everything said is in {path}")
    return FAILED if failed else DONE


if __name__ == "__main__":
    sys.exit(main())
