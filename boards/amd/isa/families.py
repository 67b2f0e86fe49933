"""Which family's machine code a chip runs."""

from __future__ import annotations

from boards.amd.isa.decode import Family
from boards.amd.isa.gfx9 import GFX942
from boards.amd.isa.gfx10 import GFX10
from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.gfx12 import GFX12
from boards.amd.isa.gfx90a import GFX90A
from boards.amd.isa.gfx115 import GFX115
from boards.amd.isa.gfx950 import GFX950

FAMILIES: dict[str, Family] = {
    "gfx90a": GFX90A,
    "gfx942": GFX942,
    "gfx950": GFX950,
    "gfx1030": GFX10,
    "gfx1031": GFX10,
    "gfx1032": GFX10,
    "gfx1100": GFX11,
    "gfx1101": GFX11,
    "gfx1102": GFX11,
    "gfx1103": GFX11,
    "gfx1150": GFX115,
    "gfx1151": GFX115,
    "gfx1200": GFX12,
    "gfx1201": GFX12,
}
"""By the compiler's name of the chip."""
