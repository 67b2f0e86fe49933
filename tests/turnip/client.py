"""Runs WGSL kernels over wgpu-native on whichever Vulkan driver the environment names.

Buffers are mapped, so that nothing but the kernel's own dispatch is asked of the GPU: a copy or a
fill would be the 2D engine's work, which a compute driver does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import wgpu

from tests.turnip.kernel import Kernel, Words

SEED = 1
_MAPPED = "mappable-primary-buffers"
_WANTED = (_MAPPED, "shader-f16", "subgroup", "shader-int64")


class Missing(Exception):
    """The driver has no such feature; the text names it."""


class Client:
    """A device, and the way to run one kernel on it."""

    def __init__(self) -> None:
        found = [
            one
            for one in wgpu.gpu.enumerate_adapters_sync()
            if one.info["backend_type"] == "Vulkan"
        ]
        if not found:
            raise Missing("a Vulkan device")
        self.adapter = found[0]
        self.name = str(self.adapter.info["device"])
        self.has = {one for one in _WANTED if one in self.adapter.features}
        if _MAPPED not in self.has:
            raise Missing(_MAPPED)
        limits = {"max-compute-invocations-per-workgroup": 512, "max-compute-workgroup-size-x": 512}
        self.device = self.adapter.request_device_sync(
            required_features=sorted(self.has), required_limits=limits
        )

    def _buffer(self, words: Words, more: int = 0) -> Any:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.MAP_WRITE
        made = self.device.create_buffer(
            size=words.nbytes, usage=usage | more, mapped_at_creation=True
        )
        made.write_mapped(words)
        made.unmap()
        return made

    def run(self, kernel: Kernel) -> Words:
        """What the kernel leaves in o. Raises: Missing."""
        for need in kernel.needs:
            if not need.startswith("limit-") and need not in self.has:
                raise Missing(need)
        a, b = kernel.inputs(SEED)
        buffers = [self._buffer(one) for one in (a, b, np.zeros(kernel.output_words, np.uint32))]
        entries = [
            {"binding": number, "resource": {"buffer": one, "offset": 0, "size": one.size}}
            for number, one in enumerate(buffers)
        ]
        layouts = [
            {"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for number, kind in enumerate(("read-only-storage", "read-only-storage", "storage"))
        ]
        if kernel.texture:
            self._bind_texture(kernel, layouts, entries)
        self._dispatch(kernel, layouts, entries)
        buffers[2].map_sync("READ")
        result = np.frombuffer(bytes(buffers[2].read_mapped()), np.uint32).copy()
        buffers[2].unmap()
        return result

    def _bind_texture(self, kernel: Kernel, layouts: list[Any], entries: list[Any]) -> None:
        """Filled by the 2D engine."""
        usage = wgpu.TextureUsage.COPY_DST | (
            wgpu.TextureUsage.STORAGE_BINDING if kernel.stored
            else wgpu.TextureUsage.TEXTURE_BINDING
        )  # fmt: skip
        side = kernel.side
        size = (side, side, max(kernel.layers, 1))
        made = self.device.create_texture(size=size, format=kernel.texture, usage=usage)
        dimension = "2d-array" if kernel.layers else "2d"
        texels = kernel.texels(SEED)
        layout = {"bytes_per_row": texels.nbytes // (side * size[2]), "rows_per_image": side}
        self.device.queue.write_texture({"texture": made}, texels, layout, size)
        entries.append({"binding": 3, "resource": made.create_view(dimension=dimension)})
        where = {"binding": 3, "visibility": wgpu.ShaderStage.COMPUTE}
        if kernel.stored:
            access = {"access": "read-write", "format": kernel.texture, "view_dimension": "2d"}
            layouts.append({**where, "storage_texture": access})
            return
        sample = "uint" if kernel.texture.endswith("uint") else "unfilterable-float"
        if kernel.filtered:
            sample = "float"
        layouts.append({
            **where, "texture": {"sample_type": sample, "view_dimension": dimension}
        })  # fmt: skip
        kind = "filtering" if kernel.filtered else "non-filtering"
        layouts.append({**where, "binding": 4, "sampler": {"type": kind}})
        filters = "linear" if kernel.filtered else "nearest"
        sampler = self.device.create_sampler(mag_filter=filters, min_filter=filters)
        entries.append({"binding": 4, "resource": sampler})

    def _dispatch(self, kernel: Kernel, layouts: Sequence[Any], entries: Sequence[Any]) -> None:
        device = self.device
        layout = device.create_bind_group_layout(entries=list(layouts))
        pipeline = device.create_compute_pipeline(
            layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={
                "module": device.create_shader_module(code=kernel.text()),
                "entry_point": "main",
            },
        )
        group = device.create_bind_group(layout=layout, entries=list(entries))
        encoder = device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        for _ in range(kernel.times):
            if kernel.indirect:
                counts = self._buffer(np.array(kernel.groups, np.uint32), wgpu.BufferUsage.INDIRECT)
                work.dispatch_workgroups_indirect(counts, 0)
            else:
                work.dispatch_workgroups(*kernel.groups)
        work.end()
        device.queue.submit([encoder.finish()])
