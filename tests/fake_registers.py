"""A register BAR and VRAM for tests: words in a dictionary, with answers that can be scripted."""

from __future__ import annotations

from collections.abc import Callable


class FakeClock:
    """Time advances with each sleep, and a little with each read of the clock."""

    def __init__(self, tick_s: float = 1e-6) -> None:
        self.now_s, self.tick_s = 0.0, tick_s

    def monotonic_s(self) -> float:
        self.now_s += self.tick_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class FakeRegisters:
    """BAR5. `reads` computes the value of a dword; `writes` is called with written values."""

    cpu_va = 0

    def __init__(self, words: dict[int, int] | None = None, nbytes: int = 1 << 20) -> None:
        self.words, self.nbytes = dict(words or {}), nbytes
        self.reads: dict[int, Callable[[], int]] = {}
        self.writes: dict[int, Callable[[int], None]] = {}
        self.written: list[tuple[int, int]] = []
        self.gone = False

    def read32(self, off: int) -> int:
        if self.gone:
            return 0xFFFFFFFF
        dword = off // 4
        answer = self.reads.get(dword)
        return answer() if answer else self.words.get(dword, 0)

    def write32(self, off: int, value: int) -> None:
        dword = off // 4
        self.words[dword] = value
        self.written.append((dword, value))
        if dword in self.writes:
            self.writes[dword](value)

    def read64(self, off: int) -> int:
        raise NotImplementedError("registers are 32 bits wide")

    def write64(self, off: int, value: int) -> None:
        raise NotImplementedError("registers are 32 bits wide")

    def read(self, off: int, nbytes: int) -> bytes:
        raise NotImplementedError("registers are read one by one")

    def write(self, off: int, data: bytes | memoryview) -> None:
        raise NotImplementedError("registers are written one by one")

    def view(self) -> memoryview:
        raise NotImplementedError("registers are no memory")

    def close(self) -> None:
        return None


class FakeVram:
    """BAR0: only written pages exist."""

    cpu_va = 0

    def __init__(self, vram_bytes: int, bar_bytes: int | None = None) -> None:
        self.vram_bytes = vram_bytes
        self.nbytes = vram_bytes if bar_bytes is None else bar_bytes
        self.bytes: dict[int, int] = {}

    def put(self, off: int, data: bytes | memoryview) -> None:
        """Whatever the BAR's size."""
        self.bytes.update(enumerate(data, off))

    def get(self, off: int, nbytes: int) -> bytes:
        """Whatever the BAR's size."""
        return bytes(self.bytes.get(at, 0) for at in range(off, off + nbytes))

    def word(self, off: int) -> int:
        """The same, of one dword."""
        return int.from_bytes(self.get(off, 4), "little")

    def _inside(self, off: int, nbytes: int) -> None:
        if not 0 <= off <= self.nbytes - nbytes:
            raise AssertionError(f"{off:#x}+{nbytes:#x} is outside the BAR of {self.nbytes:#x}")

    def read(self, off: int, nbytes: int) -> bytes:
        self._inside(off, nbytes)
        return self.get(off, nbytes)

    def write(self, off: int, data: bytes | memoryview) -> None:
        self._inside(off, len(data))
        self.put(off, data)

    def read32(self, off: int) -> int:
        return int.from_bytes(self.read(off, 4), "little")

    def write32(self, off: int, value: int) -> None:
        self.write(off, value.to_bytes(4, "little"))

    def read64(self, off: int) -> int:
        return int.from_bytes(self.read(off, 8), "little")

    def write64(self, off: int, value: int) -> None:
        self.write(off, value.to_bytes(8, "little"))

    def view(self) -> memoryview:
        raise NotImplementedError("this VRAM is not one piece")

    def close(self) -> None:
        return None
