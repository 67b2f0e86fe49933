"""Which family's machine code a chip runs."""

from __future__ import annotations

from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.gfx9 import GFX942
from boards.amd.isa.layout import Family

FAMILIES: dict[str, Family] = {
    "gfx942": GFX942,
    "gfx1100": GFX11,
    "gfx1101": GFX11,
    "gfx1102": GFX11,
}
"""By the compiler's name of the chip."""
