"""The Python array API standard (2024.12) on any device: `import tensor as xp`.

Tensors are lazy values: operations build a graph, and reading elements computes them. Functions
with a result shape that depends on data (`nonzero`, `unique_*`, boolean indexing) are not
provided; `__array_namespace_info__().capabilities()` reports that. `x[mask] = value` is.

Scalars, numpy's too, take the dtype of the tensor beside them. Other arrays and sequences are
refused there: make tensors of them with `asarray`. An index tensor is read by the device, which
cannot raise: a number outside of its axis means the nearest end.
"""

from __future__ import annotations

from math import e, inf, nan, pi

from compilers.dtype import DType as DType
from compilers.dtype import (
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from compilers.dtype import bool_ as bool
from tensor import nn, random
from tensor.core import Tensor
from tensor.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from tensor.dtype_names import dtype_from, torch_dtype
from tensor.einsum import einsum
from tensor.elementwise import abs_ as abs
from tensor.elementwise import (
    acos,
    acosh,
    add,
    asin,
    asinh,
    astype,
    atan,
    atan2,
    atanh,
    bitcast,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    reciprocal,
    remainder,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from tensor.elementwise import pow_ as pow
from tensor.elementwise import round_ as round
from tensor.info import (
    ARRAY_API_VERSIONS,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from tensor.info import array_namespace_info as __array_namespace_info__
from tensor.interop import from_dlpack, to_memoryview
from tensor.jit import jit
from tensor.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    contiguous,
    copy,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    pad,
    permute_dims,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from tensor.memory import memory_stats
from tensor.nn import (
    avg_pool2d,
    conv2d,
    embedding,
    gelu,
    layer_norm,
    log_softmax,
    max_pool2d,
    relu,
    rms_norm,
    scaled_dot_product_attention,
    sigmoid,
    silu,
    softmax,
)
from tensor.products import matmul, outer, tensordot, vecdot
from tensor.sharing import export_dmabuf, from_blob, native_handles
from tensor.sorting import argsort, sort, topk
from tensor.statistics import all_ as all
from tensor.statistics import any_ as any
from tensor.statistics import (
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    mean,
    prod,
    searchsorted,
    std,
    var,
)
from tensor.statistics import max_ as max
from tensor.statistics import min_ as min
from tensor.statistics import sum_ as sum

# fmt: off
__all__ = [
    "ARRAY_API_VERSIONS", "DType", "Tensor", "__array_api_version__", "__array_namespace_info__",
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "avg_pool2d", "bfloat16", "bitcast",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "bool", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast",
    "ceil", "clip", "concat", "contiguous", "conv2d", "copy", "copysign", "cos", "cosh",
    "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "divide", "dtype_from", "e",
    "einsum", "embedding", "empty", "empty_like", "equal", "erf", "exp", "exp2", "expand_dims",
    "expm1", "export_dmabuf", "eye", "finfo", "flip", "float16", "float32", "float64", "floor",
    "floor_divide", "from_blob", "from_dlpack", "full", "full_like", "gelu", "greater",
    "greater_equal", "hypot", "iinfo", "inf", "int8", "int16", "int32", "int64", "isdtype",
    "isfinite", "isinf", "isnan", "jit", "layer_norm", "less", "less_equal", "linspace", "log",
    "log1p", "log2", "log10", "log_softmax", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "max_pool2d", "maximum",
    "mean", "memory_stats", "meshgrid", "min", "minimum", "moveaxis", "multiply", "nan",
    "native_handles", "negative", "newaxis", "nextafter", "nn", "not_equal", "ones", "ones_like",
    "outer", "pad", "permute_dims", "pi", "positive", "pow", "prod", "random", "reciprocal", "relu",
    "remainder", "repeat", "reshape", "result_type", "rms_norm", "roll", "round",
    "scaled_dot_product_attention", "searchsorted", "sigmoid", "sign", "signbit", "silu", "sin",
    "sinh", "softmax", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract",
    "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "to_memoryview", "topk",
    "torch_dtype", "tril", "triu", "trunc", "uint8", "uint16", "uint32", "uint64", "unstack", "var",
    "vecdot", "where", "zeros", "zeros_like",
]
# fmt: on

__array_api_version__ = ARRAY_API_VERSIONS[-1]
newaxis = None
