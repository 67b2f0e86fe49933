"""Kernels for the machine-code executor: LLVM IR in, results out, through a flat test memory."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from functools import lru_cache

import llvmlite.binding as llvm
import numpy as np
from elftools.elf.elffile import ELFFile

from boards.amd.isa.families import FAMILIES
from boards.amd.wave.buffer import scratch_resource
from boards.amd.wave.execute import execute
from boards.amd.wave.start import fit_scratch, from_descriptor
from boards.amd.wave.types import MemoryFault, Report
from compilers.cpu.llvm import free_passes

CHIPS = ("gfx1100", "gfx1030", "gfx1201", "gfx942")
"""One of each family; the first is tested most."""
ARGS = "ptr addrspace(1) noalias"
_HEADER = 'target triple = "amdgcn-amd-amdhsa"\n'
_FOOTER = """
attributes #0 = {{ nounwind "amdgpu-flat-work-group-size"="1,1024" {extra} }}
!llvm.module.flags = !{{!0}}
!0 = !{{i32 1, !"amdhsa_code_object_version", i32 500}}
"""
_REL64, _REL32_LO, _REL32_HI = 5, 10, 11
_CODE_VA = 0x7F00_0000_0000
_ARGUMENT_VA = 0x7F10_0000_0000
_BUFFER_VA = 0x7F20_0000_0000
_PACKET_VA = 0x7F40_0000_0000
_SCRATCH_VA = 0x7F30_0000_0000
_GUARD = 1 << 20


class FlatMemory:
    """Buffers at fixed addresses; everything between them is unmapped."""

    def __init__(self) -> None:
        self.regions: list[tuple[int, np.ndarray, bool]] = []
        self.next_va = _BUFFER_VA

    def place(self, va: int, data: np.ndarray, *, writable: bool = True) -> int:
        self.regions.append((va, data.reshape(-1).view(np.uint8), writable))
        return va

    def add(self, data: np.ndarray, *, writable: bool = True) -> int:
        va = self.next_va
        self.next_va += (data.nbytes + 2 * _GUARD) & ~(_GUARD - 1)
        return self.place(va, data, writable=writable)

    def _region(self, va: np.ndarray, nbytes: int, access: str) -> tuple[int, np.ndarray]:
        low, high = int(va.min()), int(va.max()) + nbytes
        for base, data, writable in self.regions:
            if base <= low and high <= base + len(data):
                if access == "write" and not writable:
                    raise MemoryFault("read-only", access, int(va[0]))
                return base, data
        inside = np.zeros(len(va), bool)
        for base, data, _ in self.regions:
            top = np.uint64(base + len(data) - nbytes)
            inside |= (va >= np.uint64(base)) & (va <= top)
        bad = int(np.argmin(inside))
        raise MemoryFault("unmapped", access, int(va[bad]), bad)

    def load(self, va: np.ndarray, nbytes: int) -> np.ndarray:
        base, data = self._region(va, nbytes, "read")
        at = (va - np.uint64(base)).astype(np.intp)
        if nbytes < 4 or (at & 3).any():
            octets = data[at[:, None] + np.arange(nbytes)].astype(np.uint32)
            rows = np.zeros((max(1, nbytes // 4), len(va)), np.uint32)
            for i in range(nbytes):
                rows[i // 4] |= octets[:, i] << np.uint32(8 * (i % 4))
            return rows
        words = data[: len(data) & ~3].view(np.uint32)
        return np.stack([words[(at >> 2) + i] for i in range(nbytes // 4)])

    def store(self, va: np.ndarray, data: np.ndarray, nbytes: int) -> None:
        base, memory = self._region(va, nbytes, "write")
        at = (va - np.uint64(base)).astype(np.intp)
        for i in range(nbytes):
            memory[at + i] = (data[i // 4] >> np.uint32(8 * (i % 4))).astype(np.uint8)

    def fetch(self, va: int, nbytes: int) -> bytes:
        for base, data, _ in self.regions:
            if base <= va < base + len(data):
                return data[va - base : va - base + nbytes].tobytes()
        raise MemoryFault("unmapped", "execute", va)


@lru_cache(maxsize=256)
def compile_object(ir: str, cpu: str = "gfx1100", features: str = "", opt: int = 2) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=opt)
    text = _HEADER + f'target datalayout = "{machine.target_data}"\n' + ir
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    free_passes(llvm, passes)
    return machine.emit_object(module)


def kernel(body: str, params: str, *, extra: str = "", top: str = "", name: str = "k") -> str:
    """A whole module around the body of one kernel."""
    head = f"define amdgpu_kernel void @{name}({params}) #0 {{\n{body}\n}}\n"
    return top + head + _FOOTER.format(extra=extra)


class Loaded:
    """An object with its sections laid out and relocated at _CODE_VA."""

    def __init__(self, blob: bytes, name: str = "k") -> None:
        elf = ELFFile(io.BytesIO(blob))
        addresses: dict[int, int] = {}
        image = bytearray()
        for number, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & 2 and section["sh_size"]:
                image += bytes(-len(image) % max(256, section["sh_addralign"]))
                addresses[number] = len(image)
                size = section["sh_size"]
                image += bytes(size) if section["sh_type"] == "SHT_NOBITS" else section.data()
        symbols = elf.get_section_by_name(".symtab")
        for section in elf.iter_sections():
            if section["sh_type"] == "SHT_RELA" and section["sh_info"] in addresses:
                self._relocate(image, section, symbols, addresses)
        self.image = image
        found = {s.name: s for s in symbols.iter_symbols()}
        descriptor = found[f"{name}.kd"]
        self.descriptor = addresses[descriptor["st_shndx"]] + descriptor["st_value"]
        code = found[name]
        start = addresses[code["st_shndx"]] + code["st_value"]
        self.code = bytes(image[start : start + code["st_size"]])
        self.entry = start

    @staticmethod
    def _relocate(image: bytearray, section, symbols, addresses: dict[int, int]) -> None:
        base = addresses[section["sh_info"]]
        for entry in section.iter_relocations():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            target = addresses[symbol["st_shndx"]] + symbol["st_value"] + entry["r_addend"]
            place = base + entry["r_offset"]
            kind = entry["r_info_type"]
            delta = (target - place) & (1 << 64) - 1
            if kind == _REL64:
                image[place : place + 8] = delta.to_bytes(8, "little")
            elif kind in (_REL32_LO, _REL32_HI):
                part = delta >> (32 if kind == _REL32_HI else 0) & 0xFFFFFFFF
                image[place : place + 4] = part.to_bytes(4, "little")
            else:
                raise ValueError(f"relocation type {kind}")


def dispatch_packet(groups: tuple[int, int, int], workgroup: tuple[int, int, int]) -> bytes:
    """What a kernel may read of its packet: sizes. LLVM does, to share LDS among a group's lanes.

    # src: HSA runtime, hsa.h, hsa_kernel_dispatch_packet_t
    """
    grid = [count * size for count, size in zip(groups, workgroup, strict=True)]
    return struct.pack("<HHHHHHIII", 2, 3, *workgroup, 0, *grid).ljust(64, b"\0")


def launch(
    ir: str,
    arguments: list[np.ndarray | int],
    groups: tuple[int, int, int] = (1, 1, 1),
    workgroup: tuple[int, int, int] = (32, 1, 1),
    *,
    features: str = "",
    cpu: str = "gfx1100",
    strict=None,
    memory: FlatMemory | None = None,
    loaded: Loaded | None = None,
    **changes,
) -> Report:
    """Compile, load, run; arrays are buffers (changed in place), ints are 32-bit values."""
    loaded = loaded or Loaded(compile_object(ir, cpu, features))
    memory = memory or FlatMemory()
    packed = bytearray()
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            packed += bytes(-len(packed) % 8) + memory.add(argument).to_bytes(8, "little")
        else:
            packed += (argument & 0xFFFFFFFF).to_bytes(4, "little")
    packed += bytes(-len(packed) % 8 + 256)
    memory.place(_CODE_VA, np.frombuffer(bytes(loaded.image) + bytes(64), np.uint8))
    memory.place(_ARGUMENT_VA, np.frombuffer(bytes(packed), np.uint8))
    descriptor = bytes(loaded.image[loaded.descriptor : loaded.descriptor + 64])
    private = int.from_bytes(descriptor[4:8], "little")
    waves, lanes = 1024, 32 if descriptor[57] >> 2 & 1 else 64
    packet = dispatch_packet(groups, workgroup)
    memory.place(_PACKET_VA, np.frombuffer(packet, np.uint8), writable=False)
    pointers = {
        "kernarg": _ARGUMENT_VA, "flat_scratch": _SCRATCH_VA, "dispatch_ptr": _PACKET_VA,
        "private_segment_buffer": scratch_resource(_SCRATCH_VA, waves * 64 * private, lanes),
    }  # fmt: skip
    dispatch = from_descriptor(
        descriptor, _CODE_VA + loaded.descriptor, groups, workgroup, pointers
    )
    if private:
        memory.place(_SCRATCH_VA, np.full(waves * 64 * private, 0xCD, np.uint8))
        dispatch = fit_scratch(dispatch, _SCRATCH_VA, (private + 3) & ~3, waves)
    return execute(replace(dispatch, **changes), memory, strict, FAMILIES[cpu])
