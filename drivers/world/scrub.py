"""Removal of a machine's identifiers from a recording.

Identifiers of GPUs become small numbers in the order in which they appear: equal ones stay equal.
Files that hold only an identifier become zeros. Names of the user and of the host become "user"
and "host" in the text of files.
"""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass, field
from typing import Final

_NUMBERED: Final = re.compile(rb"(?m)^(unique_id|hive_id|\w*serial\w*|\w*uuid\w*) +(\S+)")
"""Of the properties of a KFD node. # src: amdkfd/kfd_topology.c node_show()"""
_IDENTIFIERS: Final = frozenset(
    {
        "unique_id", "serial_number", "serial", "product_number", "xgmi_hive_id", "fru_id",
        "product_serial", "product_uuid", "board_serial", "chassis_serial", "uuid", "boot_id",
        "machine-id", "machine_id", "address", "hostname", "vpd",
    }
)  # fmt: skip
"""Files of sysfs, /proc and /etc that hold an identifier. # src: amdgpu_device.c, dmi-id.c"""
_CONFIG: Final = "config"
_EXTENDED_AT, _HEADER_BYTES, _SERIAL_CAPABILITY, _SERIAL_BYTES = 0x100, 4, 0x0003, 8
"""# src: include/uapi/linux/pci_regs.h PCI_EXT_CAP_ID_DSN, PCI_EXT_CAP_DSN_SIZEOF 12"""
_MOST_CAPABILITIES: Final = 480
_COMMON: Final = frozenset({"root", "user", "host", "localhost", "kfd", "amd", "gpu"})
"""Names too common to identify a user or host."""
_LEAST_CHARS: Final = 3


def _names() -> dict[bytes, bytes]:
    """Replacements for the names of this user and of this host."""
    found: dict[bytes, bytes] = {}
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user, and no variable with a name
        user = ""
    for name, shown in ((user, b"user"), (os.uname().nodename, b"host")):
        if len(name) >= _LEAST_CHARS and name.lower() not in _COMMON:
            found[name.encode()] = shown
    return found


@dataclass
class Scrubber:
    """`file` returns what a recording has instead of a file's content."""

    names: dict[bytes, bytes] = field(default_factory=_names)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def file(self, path: str, data: bytes) -> bytes:
        """The content of a file without identifiers of this machine."""
        name = path.rpartition("/")[2]
        if name == _CONFIG:
            return _without_serial(data)
        if name in _IDENTIFIERS:
            return re.sub(rb"[0-9A-Za-z]", b"0", data)
        return self.text(_NUMBERED.sub(self._number, data))

    def text(self, data: bytes) -> bytes:
        """The same without the names of the user and of the host."""
        for name, shown in self.names.items():
            data = re.sub(rb"(?<!\w)" + re.escape(name) + rb"(?!\w)", shown, data)
        return data

    def _number(self, found: re.Match[bytes]) -> bytes:
        label, value = found[1], found[2]
        if not value.strip(b"0"):
            return label + b" " + value
        number = self._numbers.setdefault(value, len(self._numbers) + 1)
        return label + b" %d" % number


def _without_serial(config: bytes) -> bytes:
    """PCI configuration space, the Device Serial Number capability zero."""
    data, at = bytearray(config), _EXTENDED_AT
    for _ in range(_MOST_CAPABILITIES):
        if not _EXTENDED_AT <= at <= len(data) - _HEADER_BYTES:
            break
        header = int.from_bytes(data[at : at + _HEADER_BYTES], "little")
        if header & 0xFFFF == _SERIAL_CAPABILITY:
            first = at + _HEADER_BYTES
            data[first : first + _SERIAL_BYTES] = bytes(len(data[first : first + _SERIAL_BYTES]))
        at = header >> 20
    return bytes(data)
