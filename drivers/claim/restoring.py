"""Giving back what killed owners left: `python -m drivers.doctor --restore`."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Busy, DeviceError
from drivers.base.interrupts import deferred
from drivers.base.pci import StateStore
from drivers.claim.claim import Recover, as_it_is, restore
from drivers.claim.record import (
    boot_id,
    load,
    lock_name,
    record_name,
    recorded_addresses,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record."""

    address: str
    ok: bool
    text: str
    advice: str = ""


def restore_all(world: World, state: StateStore, recover: Recover = as_it_is) -> list[Outcome]:
    """Every record, one after the other; a failure of one does not stop the others.

    Ctrl-C waits for the end of one.
    """
    outcomes = []
    for address in recorded_addresses(state):
        with deferred():
            outcomes.append(_restored(world, state, address, recover))
    return outcomes


def _restored(world: World, state: StateStore, address: str, recover: Recover) -> Outcome:
    try:
        lock = state.lock(lock_name(address))
    except Busy as error:
        return Outcome(address, False, f"left alone: {error.message}", error.hint)
    except DeviceError as error:
        return Outcome(address, False, error.message, error.hint)
    try:
        text = _one(world, state, address, recover)
    except DeviceError as error:
        return Outcome(address, False, error.message, error.hint)
    finally:
        lock.release()
    return Outcome(address, True, text)


def _one(world: World, state: StateStore, address: str, recover: Recover) -> str:
    record = load(state, address)
    if record is None:
        return "its owner gave it back meanwhile"
    if record.boot_id != boot_id(world):
        state.remove(record_name(address))
        return "its record was of an earlier boot, and is removed"
    steps = restore(world, state, record, recover)
    to = f"given back to {record.driver}" if record.driver else "left without a driver, as it was"
    return f"{to}, {len(steps)} steps"
