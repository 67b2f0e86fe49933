"""webgpu.h as far as this driver uses it: functions, structs and numbers; and what is different in
the older ABI of Dawn's, which the wheel dawn-python 0.3.0 brings (Chromium 133).

# src: webgpu-native/webgpu-headers webgpu.h, as in the wheel wgpu 0.32.0 (standard); gfx-rs/
# wgpu-native ffi/wgpu.h (its own functions); dawn-python 0.3.0 pydawn/webgpu.py (older Dawn)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ALL_ONES: Final = (1 << 64) - 1
"""WGPU_STRLEN, WGPU_WHOLE_SIZE."""
NOT_WRITTEN: Final = (1 << 32) - 1
"""WGPU_QUERY_SET_INDEX_UNDEFINED"""

# Kinds of functions: "result:arguments"; v nothing, i 32 bits, p 64 bits. Of the arguments:
# S a WGPUStringView by value, C a callback info by value.
CALLS: Final = {
    "wgpuCreateInstance": "p:p",
    "wgpuInstanceRelease": "v:p",
    "wgpuInstanceProcessEvents": "v:p",
    "wgpuInstanceRequestAdapter": "p:ppC",
    "wgpuAdapterRelease": "v:p",
    "wgpuAdapterGetInfo": "i:pp",
    "wgpuAdapterGetLimits": "i:pp",
    "wgpuAdapterHasFeature": "i:pi",
    "wgpuAdapterRequestDevice": "p:ppC",
    "wgpuDeviceDestroy": "v:p",
    "wgpuDeviceRelease": "v:p",
    "wgpuDeviceGetQueue": "p:p",
    "wgpuDeviceCreateBuffer": "p:pp",
    "wgpuDeviceCreateShaderModule": "p:pp",
    "wgpuDeviceCreateBindGroupLayout": "p:pp",
    "wgpuDeviceCreatePipelineLayout": "p:pp",
    "wgpuDeviceCreateComputePipeline": "p:pp",
    "wgpuDeviceCreateBindGroup": "p:pp",
    "wgpuDeviceCreateQuerySet": "p:pp",
    "wgpuDeviceCreateCommandEncoder": "p:pp",
    "wgpuBufferDestroy": "v:p",
    "wgpuBufferRelease": "v:p",
    "wgpuBufferMapAsync": "p:ppppC",
    "wgpuBufferGetConstMappedRange": "p:ppp",
    "wgpuBufferUnmap": "v:p",
    "wgpuShaderModuleRelease": "v:p",
    "wgpuBindGroupLayoutRelease": "v:p",
    "wgpuPipelineLayoutRelease": "v:p",
    "wgpuComputePipelineRelease": "v:p",
    "wgpuBindGroupRelease": "v:p",
    "wgpuQuerySetRelease": "v:p",
    "wgpuCommandEncoderBeginComputePass": "p:pp",
    "wgpuCommandEncoderCopyBufferToBuffer": "v:pppppp",
    "wgpuCommandEncoderResolveQuerySet": "v:ppiipp",
    "wgpuCommandEncoderFinish": "p:pp",
    "wgpuCommandEncoderRelease": "v:p",
    "wgpuCommandBufferRelease": "v:p",
    "wgpuComputePassEncoderSetPipeline": "v:pp",
    "wgpuComputePassEncoderSetBindGroup": "v:pippp",
    "wgpuComputePassEncoderDispatchWorkgroups": "v:piii",
    "wgpuComputePassEncoderEnd": "v:p",
    "wgpuComputePassEncoderRelease": "v:p",
    "wgpuQueueSubmit": "v:ppp",
    "wgpuQueueWriteBuffer": "v:ppppp",
    "wgpuQueueOnSubmittedWorkDone": "p:pC",
    "wgpuQueueRelease": "v:p",
}
NATIVE_CALLS: Final = {
    "wgpuInstanceEnumerateAdapters": "p:ppp",
    "wgpuDevicePoll": "i:pip",
    "wgpuQueueGetTimestampPeriod": "f:p",
    "wgpuDeviceCreateShaderModuleTrusted": "p:ppp",
    "wgpuSetLogLevel": "v:i",
}
"""Of wgpu-native alone."""
FUTURES: Final = frozenset(name for name, kind in CALLS.items() if kind.endswith("C"))
"""Functions with a callback."""

_INFO: Final = "next:p mode:i callback:p userdata1:p userdata2:p"
_ERROR_INFO: Final = "next:p callback:p userdata1:p userdata2:p"
_LIMITS: Final = (
    "maxTextureDimension1D:i maxTextureDimension2D:i maxTextureDimension3D:i "
    "maxTextureArrayLayers:i maxBindGroups:i maxBindGroupsPlusVertexBuffers:i "
    "maxBindingsPerBindGroup:i maxDynamicUniformBuffersPerPipelineLayout:i "
    "maxDynamicStorageBuffersPerPipelineLayout:i maxSampledTexturesPerShaderStage:i "
    "maxSamplersPerShaderStage:i maxStorageBuffersPerShaderStage:i "
    "maxStorageTexturesPerShaderStage:i maxUniformBuffersPerShaderStage:i "
    "maxUniformBufferBindingSize:q maxStorageBufferBindingSize:q "
    "minUniformBufferOffsetAlignment:i minStorageBufferOffsetAlignment:i maxVertexBuffers:i "
    "maxBufferSize:q maxVertexAttributes:i maxVertexBufferArrayStride:i {older}"
    "maxInterStageShaderVariables:i maxColorAttachments:i maxColorAttachmentBytesPerSample:i "
    "maxComputeWorkgroupStorageSize:i maxComputeInvocationsPerWorkgroup:i "
    "maxComputeWorkgroupSizeX:i maxComputeWorkgroupSizeY:i maxComputeWorkgroupSizeZ:i "
    "maxComputeWorkgroupsPerDimension:i "
)
STRUCTS: Final = {
    "ChainedStruct": "next:p sType:i",
    "InstanceDescriptor": "next:p requiredFeatureCount:q requiredFeatures:p requiredLimits:p",
    "RequestAdapterOptions": "next:p featureLevel:i powerPreference:i forceFallbackAdapter:i "
    "backendType:i compatibleSurface:p",
    "CallbackInfo": _INFO,
    "UncapturedErrorCallbackInfo": _ERROR_INFO,
    "AdapterInfo": "next:p vendor:s architecture:s device:s description:s backendType:i "
    "adapterType:i vendorID:i deviceID:i subgroupMinSize:i subgroupMaxSize:i",
    "Limits": "next:p " + _LIMITS.format(older="") + "maxImmediateSize:i",
    "QueueDescriptor": "next:p label:s",
    "DeviceDescriptor": "next:p label:s requiredFeatureCount:q requiredFeatures:p "
    "requiredLimits:p defaultQueue:QueueDescriptor deviceLostCallbackInfo:CallbackInfo "
    "uncapturedErrorCallbackInfo:UncapturedErrorCallbackInfo",
    "BufferDescriptor": "next:p label:s usage:q size:q mappedAtCreation:i",
    "ShaderModuleDescriptor": "next:p label:s",
    "ShaderSourceWGSL": "chain:ChainedStruct code:s",
    "ComputeState": "next:p module:p entryPoint:s constantCount:q constants:p",
    "ComputePipelineDescriptor": "next:p label:s layout:p compute:ComputeState",
    "PipelineLayoutDescriptor": "next:p label:s bindGroupLayoutCount:q bindGroupLayouts:p "
    "immediateSize:i",
    "BufferBindingLayout": "next:p type:i hasDynamicOffset:i minBindingSize:q",
    "SamplerBindingLayout": "next:p type:i",
    "TextureBindingLayout": "next:p sampleType:i viewDimension:i multisampled:i",
    "StorageTextureBindingLayout": "next:p access:i format:i viewDimension:i",
    "BindGroupLayoutEntry": "next:p binding:i visibility:q bindingArraySize:i "
    "buffer:BufferBindingLayout sampler:SamplerBindingLayout texture:TextureBindingLayout "
    "storageTexture:StorageTextureBindingLayout",
    "BindGroupLayoutDescriptor": "next:p label:s entryCount:q entries:p",
    "BindGroupEntry": "next:p binding:i buffer:p offset:q size:q sampler:p textureView:p",
    "BindGroupDescriptor": "next:p label:s layout:p entryCount:q entries:p",
    "PassTimestampWrites": "next:p querySet:p beginningOfPassWriteIndex:i endOfPassWriteIndex:i",
    "ComputePassDescriptor": "next:p label:s timestampWrites:p",
    "QuerySetDescriptor": "next:p label:s type:i count:i",
    "DawnTogglesDescriptor": "chain:ChainedStruct enabledToggleCount:q enabledToggles:p "
    "disabledToggleCount:q disabledToggles:p",
}

# Numbers that are the same in both
SUCCESS: Final = 1
SHADER_SOURCE_WGSL: Final = 2
ALLOW_PROCESS_EVENTS: Final = 2
ALLOW_SPONTANEOUS: Final = 3
FEATURE_LEVEL_CORE: Final = 2
HIGH_PERFORMANCE: Final = 2
ADAPTER_TYPES: Final = {1: "discrete GPU", 2: "integrated GPU", 3: "processor", 4: "unknown"}
BACKEND_NULL: Final = 1
"""Dawn's, which computes nothing."""
BACKENDS: Final = {4: "D3D12", 5: "Metal", 6: "Vulkan", 7: "OpenGL", 8: "OpenGL ES"}
ERROR_TYPES: Final = {2: "validation", 3: "out of memory", 4: "internal", 5: "unknown"}
ERROR_OUT_OF_MEMORY: Final = 3
LOST_DESTROYED: Final = 2
QUERY_TIMESTAMP: Final = 2
USAGE_MAP_READ, USAGE_COPY_SRC, USAGE_COPY_DST = 0x1, 0x4, 0x8
USAGE_STORAGE, USAGE_QUERY_RESOLVE = 0x80, 0x200
MAP_READ: Final = 1
STAGE_COMPUTE: Final = 4
LOG_OFF: Final = 0
BOUNDS_CHECKS: Final = 1
"""WGPUShaderRuntimeChecks of wgpu-native; without it an access past a buffer's end is made."""
BACKENDS_PRIMARY: Final = 1 << 0 | 1 << 2 | 1 << 3
"""wgpu-native's Vulkan, Metal and D3D12"""
TOGGLES: Final = 0x5000A
"""WGPUSType_DawnTogglesDescriptor"""


@dataclass(frozen=True, slots=True)
class Flavour:
    """One ABI of webgpu.h, with the numbers that are not the same in all."""

    name: str
    structs: Mapping[str, str] = field(default_factory=lambda: STRUCTS)
    features: Mapping[str, int] = field(default_factory=dict)
    """Of adapters: "timestamp-query" -> WGPUFeatureName."""
    binding_storage: int = 3
    binding_read_only: int = 4
    suffix: str = ""
    """After the names of functions with callbacks."""
    limits_at: str = ""
    """Where WGPULimits are in the struct that functions take: "limits."."""
    done_words: int = 2
    """Words of the message in WGPUQueueWorkDoneCallback."""
    native: bool = False
    """Whether it has wgpu-native's own functions."""
    subgroups: int = 0
    """WGPUSType_AdapterPropertiesSubgroups, where AdapterInfo has no sizes of subgroups."""
    toggles: bool = False
    """Whether a device takes Dawn's toggles."""


_STANDARD: Final = {"timestamp-query": 9, "shader-f16": 11, "subgroups": 18}
_NATIVE: Final = {"shader-f64": 0x3001D, "shader-int64": 0x30026}
STANDARD: Final = Flavour("webgpu.h", features=_STANDARD)
DAWN: Final = Flavour("Dawn", features=_STANDARD, toggles=True)
"""Dawn since it has the standard webgpu.h."""
WGPU_NATIVE: Final = Flavour("wgpu-native", features=_STANDARD | _NATIVE, native=True)
OLDER_DAWN: Final = Flavour(
    "Dawn of 2025",
    structs={
        **STRUCTS,
        "InstanceDescriptor": "next:p featuresNext:p timedWaitAnyEnable:i timedWaitAnyMaxCount:q",
        "RequestAdapterOptions": "next:p compatibleSurface:p featureLevel:i powerPreference:i "
        "backendType:i forceFallbackAdapter:i compatibilityMode:i",
        "AdapterInfo": "next:p vendor:s architecture:s device:s description:s backendType:i "
        "adapterType:i vendorID:i deviceID:i compatibilityMode:i",
        "AdapterPropertiesSubgroups": "chain:ChainedStruct subgroupMinSize:i subgroupMaxSize:i",
        "LimitsAlone": _LIMITS.format(older="maxInterStageShaderComponents:i ")
        + "maxStorageBuffersInVertexStage:i maxStorageTexturesInVertexStage:i "
        "maxStorageBuffersInFragmentStage:i maxStorageTexturesInFragmentStage:i",
        "Limits": "next:p limits:LimitsAlone",
        "BindGroupLayoutEntry": "next:p binding:i visibility:q buffer:BufferBindingLayout "
        "sampler:SamplerBindingLayout texture:TextureBindingLayout "
        "storageTexture:StorageTextureBindingLayout",
        "PassTimestampWrites": "querySet:p beginningOfPassWriteIndex:i endOfPassWriteIndex:i",
    },
    features={"timestamp-query": 3, "shader-f16": 8, "subgroups": 13},
    binding_storage=2,
    binding_read_only=3,
    suffix="2",
    limits_at="limits.",
    done_words=0,
    subgroups=10,
    toggles=True,
)
"""Before webgpu.h had a version: other numbers, "2" after the names of functions with callbacks,
limits one struct deeper, no message when work is done."""
