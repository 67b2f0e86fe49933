"""The guest whose GPU is on USB: Debian's kernel with xHCI, Debian's libusb, usb-redir in QEMU."""

from __future__ import annotations

from pathlib import Path

from tests.debian import CannotRun, fetched
from tests.vm import image
from tests.vm.cpio import CpioWriter
from tests.vm.machine import Boot, Places

USB = "usb"
BOOT = Boot("a GPU on USB", USB, limit_s=600, cable=True)
MODULES = ("xhci_pci",)
LIBUSB_SUITE, LIBUSB = "bookworm", ("libusb-1.0-0", "libudev1")
"""Of a release whose C library is older than those that this runs with."""
_PLUGIN = "usr/lib/x86_64-linux-gnu/qemu/hw-usb-redirect.so"
_FOLDER = "usr/lib/x86_64-linux-gnu"


def places(cache: Path, kernel: Path, board: str, *, refresh: bool) -> Places:
    """The guest's file system, beside a QEMU and a kernel that are there. Raises: CannotRun."""
    if not (cache / "qemu" / _PLUGIN).exists():
        raise CannotRun(f"QEMU came without {_PLUGIN}: try again with --refresh")
    libraries = cache / "libusb"
    packages = fetched(
        libraries, LIBUSB_SUITE, lambda a, to: a.fetch_alone(LIBUSB, to), refresh=refresh
    )
    print(f"vm: {', '.join(packages)}", flush=True)
    initrd = cache / "initrd-usb"
    image.python_image(initrd)
    image.checkout_image(
        initrd, image.kernel_modules(kernel, MODULES), [board], cache, init="usb_init"
    )
    with CpioWriter(initrd, append=True) as files:
        for source in sorted((libraries / _FOLDER).glob("lib*.so.*")):
            if source.is_symlink():
                files.link(f"{_FOLDER}/{source.name}", source.readlink().name)
            else:
                files.file(f"{_FOLDER}/{source.name}", source)
    return Places(cache / "qemu", sorted(kernel.glob("boot/vmlinuz-*"))[-1], initrd)
