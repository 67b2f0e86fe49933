"""What a function was before it was taken, kept before the first step: a killed owner's will."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.base.pci import StateStore
from drivers.machine.text import read_text
from drivers.pci import aspm
from drivers.pci.functions import PciFunction
from drivers.pci.strict import proc_text

VERSION = 1
_VFIO = "vfio-pci"
_PREFIX, _SUFFIX = "pci-", ".claim"
_NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?").fullmatch
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]").fullmatch
_BOOT_ID = re.compile(r"[0-9a-f-]{36}").fullmatch


class Method(StrEnum):
    """How a function is used once it is taken."""

    VFIO = "vfio"
    """Through vfio-pci: DMA only where the IOMMU lets it."""
    BARS = "bars"
    """Through its BARs alone, without DMA: where there is no IOMMU."""


@dataclass(frozen=True, slots=True)
class Record:
    """One function as it was: everything that giving it back needs."""

    boot_id: str
    address: str
    vendor: int
    device: int
    method: Method
    driver: str
    override: str
    power: str
    """power/control: "auto" or "on", "" where there is none."""
    enabled: bool
    """Whether its memory was decoded although no driver held it."""
    pid: int
    aspm: int = 0
    """ASPM Control of its link where ours switched it off: 1, 2 or 3; 0: nothing to put back."""


def record_of(world: World, function: PciFunction, method: Method, pid: int) -> Record:
    """The record of a function that is about to be taken."""
    ready = method is Method.VFIO and function.driver == _VFIO
    power = f"{function.folder}/power/control"
    return Record(
        boot_id=boot_id(world),
        address=function.address,
        vendor=function.vendor,
        device=function.device,
        method=method,
        driver=function.driver,
        override=function.override,
        power=read_text(world, power).strip() if method is Method.BARS else "",
        enabled=method is Method.BARS and not function.driver and is_enabled(world, function),
        pid=pid,
        aspm=0 if ready else aspm.place(world, function.address)[1] & aspm.BITS,
    )


def is_enabled(world: World, function: PciFunction) -> bool:
    """Whether the function was enabled; src: drivers/pci/pci-sysfs.c enable_show()."""
    return read_text(world, f"{function.folder}/enable").strip() != "0"


def boot_id(world: World) -> str:
    """What differs from boot to boot; bindings are lost with it."""
    text = proc_text(world, "/proc/sys/kernel/random/boot_id").strip()
    if not _BOOT_ID(text):
        raise MalformedInput("/proc/sys/kernel/random/boot_id is not a boot id")
    return text


def record_name(address: str) -> str:
    """The record's file."""
    return f"{_PREFIX}{address}{_SUFFIX}"


def lock_name(address: str) -> str:
    """The lock's file."""
    return f"{_PREFIX}{address}.lock"


def recorded_addresses(state: StateStore) -> list[str]:
    """Functions that have a record."""
    names = (name.removeprefix(_PREFIX) for name in state.names() if name.startswith(_PREFIX))
    found = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return [address for address in found if _ADDRESS(address)]


def save(state: StateStore, record: Record) -> None:
    """Write the record; a later process finds it, however this one ends."""
    text = json.dumps({"version": VERSION, **asdict(record)})
    state.write(record_name(record.address), text.encode())


def load(state: StateStore, address: str) -> Record | None:
    """The record of a function, None without one. Raises: MalformedInput."""
    data = state.read(record_name(address))
    if data is None:
        return None
    where = f"{state.path}/{record_name(address)}"
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _malformed(where, "it is no JSON") from error
    if not isinstance(fields, dict) or fields.pop("version", None) != VERSION:
        raise _malformed(where, f"it is not a record of version {VERSION}")
    return _checked(fields, address, where)


def _malformed(where: str, rule: str) -> MalformedInput:
    hint = "bind the GPU to its driver by hand, then remove the file"
    return MalformedInput(f"{where}: {rule}", hint=hint)


def _word(value: Any) -> bool:
    return isinstance(value, str) and bool(_NAME(value))


def _id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 16


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "boot_id": lambda v: isinstance(v, str) and bool(_BOOT_ID(v)),
    "address": lambda v: isinstance(v, str) and bool(_ADDRESS(v)),
    "vendor": _id,
    "device": _id,
    "method": lambda v: v in tuple(Method),
    "driver": _word,
    "override": _word,
    "power": lambda v: v in ("", "on", "auto"),
    "enabled": lambda v: type(v) is bool,
    "aspm": lambda v: type(v) is int and 0 <= v <= aspm.BITS,
    "pid": lambda v: type(v) is int and 0 < v < 1 << 32,
}


def _checked(fields: dict[str, Any], address: str, where: str) -> Record:
    """The record of checked fields: they become paths and what is written to them."""
    fields.setdefault("aspm", 0)  # a record of before 2026-11-28
    if fields.keys() != _FIELDS.keys():
        raise _malformed(where, f"its fields are not {', '.join(_FIELDS)}")
    for name, accepts in _FIELDS.items():
        if not accepts(fields[name]):
            raise _malformed(where, f"{name} has a value that we never write")
    if fields["address"] != address:
        raise _malformed(where, "it is of another function")
    return Record(**{**fields, "method": Method(fields["method"])})
