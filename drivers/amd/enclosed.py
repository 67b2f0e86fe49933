"""What a probe prints of enclosures on USB, as text and for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from drivers.machine.output import width_chars
from drivers.usb.asm24.enclosures import Enclosure
from drivers.usb.asm24.usb4 import Usb4Enclosure

NONE: Final = "there is no enclosure with an ASM2464PD on USB"
_INDENT: Final = " " * 12


def enclosure_table(found: Sequence[Enclosure], tunnels: Sequence[Usb4Enclosure] = ()) -> str:
    """Every enclosure, and what is in the way with what to do; `tunnels` are those on USB4."""
    lines: list[str] = []
    for number, one in enumerate(found):
        state = "its GPU would be booted" if one.usable else "would be left as it is"
        lines += _wrapped(f"AMD:{number}", f"{one}: {state}")
        lines += _wrapped("", f"it runs {one.firmware}")
        if not one.usable:
            lines += [*_wrapped("", one.reason), *_wrapped("", f"-> {one.advice}")]
    for tunnel in tunnels:
        lines += [
            *_wrapped("-", f"{tunnel}: {tunnel.reason}"),
            *_wrapped("", f"-> {tunnel.advice}"),
        ]
    return "\n".join(lines or [NONE])


def enclosure_facts(
    found: Sequence[Enclosure], tunnels: Sequence[Usb4Enclosure] = ()
) -> dict[str, object]:
    """What `enclosure_table` shows, as one object for JSON."""
    return {
        "enclosures": [
            {"name": f"AMD:{number}", "ready": one.usable, **asdict(one)}
            for number, one in enumerate(found)
        ],
        "usb4": [{"reason": one.reason, "advice": one.advice, **asdict(one)} for one in tunnels],
    }


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, width_chars(), initial_indent=f"{start:<12}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip
