"""One claimed function: lock, rules, record, steps; and the same way back, whatever happens."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

from drivers.base.contracts import World
from drivers.base.errors import Busy, Denied, DeviceGone, MalformedInput, NotFound
from drivers.base.interrupts import deferred
from drivers.base.pci import Lock, StateStore
from drivers.base.undo import Undo, run_all, whole
from drivers.claim import lost, steps
from drivers.claim.holders import holders, nodes_of
from drivers.claim.place import open_state
from drivers.claim.record import (
    Method,
    Record,
    boot_id,
    load,
    lock_name,
    record_name,
    record_of,
    save,
)
from drivers.claim.refusal import Reason, Refusal, Refused
from drivers.claim.rules import Known, refusals
from drivers.claim.steps import DRIVERS, VFIO, Step
from drivers.pci.functions import PciFunction, checked_address, look_at

Fits: TypeAlias = Callable[[PciFunction, Method], object]
Recover: TypeAlias = Callable[[World, Record], None]
"""What a vendor does to a GPU before it goes back. Raises: DeviceError, and it stays."""


def as_it_is(world: World, record: Record) -> None:
    """No vendor has anything to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What claiming would do: nothing while there are refusals."""

    function: PciFunction
    method: Method
    refusals: tuple[Refusal, ...]
    steps: tuple[Step, ...]


def plan(world: World, address: str, known: Known, method: Method | None = None) -> Plan:
    """Inspect, and change nothing. Raises: NotFound, MalformedInput, Denied.

    Without a `method`: VFIO where the function has an IOMMU group, its BARs alone elsewhere.
    """
    function = look_at(world, checked_address(address))
    chosen = method or (Method.VFIO if function.iommu_group else Method.BARS)
    found = refusals(world, function, known)
    return Plan(function, chosen, tuple(found), tuple(steps.take(world, function, chosen)))


class Claim:
    """A function that this process has. `claim` makes it; `close` gives it back.

    Close everything opened through it first: vfio-pci does not let go of an open device.
    """

    def __init__(
        self, world: World, state: StateStore, record: Record, lock: Lock, recover: Recover
    ) -> None:
        self._world, self._state = world, state
        self.recover = recover
        """Before it goes back; `as_it_is` once its user does that in the open session."""
        self.close_state: Callable[[], object] = _not_ours
        """Closes the directory of locks, where it was opened for this claim alone."""
        self._lock: Lock | None = lock
        self._pid, self.is_open = os.getpid(), True
        self.record = record
        self.address, self.method = record.address, record.method

    def close(self) -> None:
        """Give the function back and release the lock; Ctrl-C waits for the end of it.

        A close that failed may be repeated; after one that did not a second does nothing.
        A process that was forked from the owner gives nothing back.
        """
        if not self.is_open or os.getpid() != self._pid:
            return
        with deferred():
            run_all([self._give_back, self._release])
            self.is_open = False
            atexit.unregister(self.close)
            self.close_state()

    def leave(self) -> None:
        """Release the lock alone: binding and record stay, for the next claim or the doctor."""
        if self.is_open and os.getpid() == self._pid:
            self.is_open = False
            atexit.unregister(self.close)
            run_all([self._release, self.close_state])

    def _give_back(self) -> None:
        if self._lock is not None:
            restore(self._world, self._state, self.record, self.recover)
            return
        left = load(self._state, self.address)  # the next owner, or the doctor, may have done it
        if left is not None:
            self._lock = self._state.lock(lock_name(self.address))
            restore(self._world, self._state, left, self.recover)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _not_ours() -> None:
    """The directory of locks is closed by whoever opened it."""


def claim(
    world: World,
    state: StateStore | None,
    address: str,
    known: Known,
    method: Method | None = None,
    fits: Fits = lambda function, method: None,
    recover: Recover = as_it_is,
) -> Claim:
    """Take a function. The caller's user has asked for this function by name, or for any idle one.

    Locks and records are in `state`; None: in this user's own, open for as long as the claim. What
    a killed owner left is taken over, and given back in the end to whom it had been. `fits` raises
    what would stop the caller later, before the first write; `recover` is called before what a
    killed owner left goes back. Ctrl-C waits for the end.
    Raises: Busy (a lock, with the pid), Refused (with every reason), Denied, NotFound.
    """
    address = checked_address(address)
    make = partial(_claim, world, address, known, method, fits, recover)
    chosen = partial(_in_own_state, make) if state is None else partial(make, state)
    return whole(chosen, Claim.close)


def _in_own_state(make: Callable[[StateStore], Claim]) -> Claim:
    with Undo() as undo:
        own = open_state(os.environ)
        undo.add(own.close)
        claimed = make(own)
        claimed.close_state = own.close
    return claimed


def _claim(
    world: World,
    address: str,
    known: Known,
    method: Method | None,
    fits: Fits,
    recover: Recover,
    state: StateStore,
) -> Claim:
    with Undo() as undo:
        lock = _locked(state, address)
        undo.add(lock.release)
        left = _left_behind(world, state, address)
        if left is not None:
            undo.add(partial(restore, world, state, left, recover))
        made = plan(world, address, known, method)
        if left is not None and left.method is not made.method and not made.refusals:
            restore(world, state, left, recover)
            left, made = None, plan(world, address, known, method)
        if made.refusals:
            raise Refused(address, made.refusals)
        _prepared(world, made)
        fits(made.function, made.method)
        record = left or record_of(world, made.function, made.method, os.getpid())
        needed = as_it_is if left is None else recover  # nothing of ours has run on a fresh one
        save(state, record)
        back = partial(restore, world, state, record, needed)
        undo.hand_over(lambda: run_all([back, lock.release]))
        steps.run(world, made.steps)
        steps.verify(world, address, VFIO if made.method is Method.VFIO else "")
        claimed = Claim(world, state, record, lock, needed)
        atexit.register(claimed.close)
    return claimed


def _locked(state: StateStore, address: str) -> Lock:
    """Its lock. Raises: Busy, also when this process has it, and knows that it has."""
    try:
        return state.lock(lock_name(address))
    except Busy:
        if not lost.give_back(address):
            raise
    return state.lock(lock_name(address))


def _left_behind(world: World, state: StateStore, address: str) -> Record | None:
    """The record of an owner that was killed since the machine booted."""
    left = load(state, address)
    if left is not None and left.boot_id != boot_id(world):
        state.remove(record_name(address))
        return None
    return left


def _prepared(world: World, made: Plan) -> None:
    """Everything that would stop in the middle stops here. Raises: NotFound, Denied."""
    if made.method is Method.VFIO:
        if not made.function.iommu_group:
            raise NotFound(
                f"{made.function.address} is in no IOMMU group",
                hint="switch the IOMMU (VT-d) on in the firmware setup",
            )
        if not world.exists(f"{DRIVERS}/{VFIO}"):
            raise NotFound(f"the driver {VFIO} is not loaded", hint="as root: modprobe vfio-pci")
    for step in made.steps:
        if not world.access(step.path, os.W_OK):
            raise Denied(
                f"{step.path} may not be written ({step.name})",
                hint="bind the GPU to vfio-pci beforehand, as root, or run this as root",
            )


def restore(
    world: World, state: StateStore, record: Record, recover: Recover = as_it_is
) -> Sequence[Step]:
    """Give a function back to what `record` remembers, and forget the record; the steps taken.

    The caller holds the lock. When `recover` or a step fails the record stays, for the next try.
    Raises: Busy while a process has it open, MalformedInput when the device was exchanged.
    """
    try:
        now = look_at(world, record.address)
    except NotFound as error:
        raise DeviceGone(
            f"{record.address} is not on the bus any more",
            hint="rescan the bus, or restart the machine",
        ) from error
    if (now.vendor, now.device) != (record.vendor, record.device):
        raise MalformedInput(
            f"{now.address} is {now.vendor:04x}:{now.device:04x}, and was "
            f"{record.vendor:04x}:{record.device:04x}",
            hint=f"another device is there: remove {state.path}/{record_name(record.address)}",
        )
    todo = list(steps.give_back(world, now, record))
    if now.driver == VFIO and todo:
        _closed(world, now)
    recover(world, record)
    steps.run(world, todo)
    if todo:
        steps.verify(world, record.address, record.driver)
    state.remove(record_name(record.address))
    return todo


def _closed(world: World, function: PciFunction) -> None:
    """vfio-pci waits without end for its users. Raises: Refused while there is one."""
    found, _ = holders(world, nodes_of(world, function))
    if found:
        holder = found[0]
        held = Refusal(
            Reason.HELD,
            f"process {holder.pid} has {holder.target}",
            holder.evidence,
            f"close it in process {holder.pid}, then python -m drivers.doctor --restore",
            holder.pid,
        )
        raise Refused(function.address, [held])
