"""AMD's own firmware files, of Debian's non-free package: fetched when asked for, not kept."""

from __future__ import annotations

from pathlib import Path

from tests.debian import CannotRun, fetched

SUITE, COMPONENT, PACKAGE = "trixie", "non-free-firmware", "firmware-amd-graphics"
MADE_UP, DEBIAN = "made-up", "debian"
_PLACE = "usr/lib/firmware/amdgpu"


def folder(cache: Path, which: str, *, refresh: bool = False) -> Path | None:
    """Where the files are; None for those that the boards make. Raises: CannotRun."""
    if which == MADE_UP:
        return None
    packages = fetched(
        cache / "firmware", SUITE, lambda archive, to: archive.fetch_alone([PACKAGE], to),
        component=COMPONENT, refresh=refresh,
    )  # fmt: skip
    print(f"vm: {', '.join(packages)}", flush=True)
    found = cache / "firmware" / _PLACE
    if not found.is_dir():
        raise CannotRun(f"no {found}: try again with --refresh")
    return found
