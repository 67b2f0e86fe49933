"""Engines that look at nothing: what a driver costs the host, with no GPU behind it."""

from __future__ import annotations

from boards.amd.engine_types import Host, QueueSpec, Space


class Nobody:
    """Queues whose packets nobody reads. `complete` does what a GPU would have done by now."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.hung: set[int] = set()
        self._spaces: dict[int, Space] = {}

    def create(self, spec: QueueSpec, space: Space, host: Host | None = None) -> None:
        self._spaces[spec.queue_id] = space

    def destroy(self, queue_id: int) -> None:
        del self._spaces[queue_id]

    def doorbell(self, queue_id: int, value: int) -> None:
        """Nobody is there."""

    def pump(self) -> bool:
        return False

    def idle(self, queue_id: int) -> bool:
        return True

    def stopped(self, queue_id: int) -> bool:
        return False

    def read_pointer(self, queue_id: int) -> int:
        return 0

    def complete(self, queue_id: int, va: int, value: int) -> None:
        """Write a 64-bit value where a queue tells how far it has come."""
        self._spaces[queue_id].write(va, value.to_bytes(8, "little"))
