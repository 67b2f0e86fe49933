"""How to install what is optional: in a checkout by an extra, else by the packages' own names.

No index has this distribution, so `pip install` with its name would not find it, or find another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "unbound"
MODULES: Final = {
    "matplotlib": "plot",
    "pyopencl": "cl-client",
    "sklearn": "examples",
    "torch": "torch",
    "usb": "",
    "llvmlite": "",
    "wgpu": "webgpu",
}
"""Modules of others -> the extra that brings them; "": every installation has them."""
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_OWN: Final = re.compile(rf"{NAME}\[([^\]]+)\]")
"""An extra that stands for others."""
_ROOT: Final = Path(__file__).resolve().parent.parent


def install(extra: str) -> str:
    """The command that installs an extra: "pip install -e '.[cl]'" in a checkout."""
    if in_checkout():
        return f"pip install -e '.[{extra}]'" if extra else "pip install -e ."
    wanted = " ".join(f"'{one}'" for one in requirements(extra))
    return f"pip install {wanted}" if wanted else f"install what the extra {extra!r} lists"


def in_checkout() -> bool:
    """Whether this runs from a checkout, whose pyproject.toml lists the extras."""
    return (_ROOT / "pyproject.toml").is_file()


def requirements(extra: str) -> list[str]:
    """What an extra installs, from this installation's metadata; "": what everybody has."""
    from importlib import metadata

    try:
        listed = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return []
    own = list(_of(listed, extra))
    others = [name for one in own for names in _OWN.findall(one) for name in names.split(",")]
    found = [one for one in own if not _OWN.match(one)]
    return found + [one for name in others for one in _of(listed, name.strip())]


def _of(listed: list[str], extra: str) -> Iterator[str]:
    """Requirements of an extra, without conditions such as the machine's."""
    for line in listed:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        found = _EXTRA.search(marker)
        if (found[1] if found else "") == extra:
            yield requirement


def of_module(module: str) -> str:
    """What to install for a module that cannot be found; "": it is none of the optional ones."""
    extra = MODULES.get(module)
    return "" if extra is None else f"Install it with: {install(extra)}"
