"""Everything differentiable, a module a family."""

from ..documented import document as _document
from ..names import guide as _guide
from ..names import tell as _tell
from . import custom, graphs, mesh, methods, rounding
from . import draws as random
from .activations import (
    ACTIVATIONS,
    activation,
    celu,
    elu,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    mish,
    relu6,
    selu,
    softsign,
    squash,
    swish,
)
from .arranging import (
    diag,
    diagonal,
    expand_as,
    eye,
    flatten,
    full_like,
    index_select,
    linspace,
    masked_fill,
    meshgrid,
    moveaxis,
    narrow,
    ones_like,
    outer,
    repeat,
    roll,
    rot90,
    squeeze,
    swapaxes,
    tile,
    tril,
    triu,
    unsqueeze,
    zeros_like,
)
from .assigning import gather_nd, put_along_axis, scatter_nd
from .attention import attention
from .channel_norm import batch_norm, batch_norm_train, group_norm, instance_norm
from .checkpoint import checkpoint
from .comparing import allclose, array_equal, isclose, isinf, logical_and, logical_or, logical_xor, nan_to_num
from .contraction import cross, einsum, kron, tensordot, trace
from .conv import conv, conv_transpose
from .counting import bincount, histogram, interp, nonzero, searchsorted, unique
from .ctc import ctc
from .cumulative import cummax, cumprod, cumsum, logcumsumexp
from .draws import bernoulli, philox
from .index import expect_indices, gather, one_hot, scatter_add, scatter_max, scatter_mean, take_along_axis
from .indexing import getitem
from .joining import chunk, concat, split, stack, unbind
from .losses import binary_cross_entropy_with_logits, cross_entropy
from .matmul import linear, matmul
from .moments import all, any, count_nonzero, log_variance, norm, std
from .normalization import layer_norm, log_softmax, rms_norm, softmax
from .packed import packed_attention
from .pointwise import (
    abs,
    add,
    arange,
    arctan,
    bit_and,
    bit_or,
    bit_xor,
    cast,
    ceil,
    clip,
    cos,
    cosh,
    detach,
    div,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floordiv,
    full,
    greater,
    greater_equal,
    invert,
    isfinite,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_not,
    maximum,
    minimum,
    mod,
    mul,
    mul_high,
    neg,
    not_equal,
    ones,
    pow,
    reciprocal,
    relu,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    sub,
    tan,
    tanh,
    trunc,
    where,
    zeros,
)
from .pointwise import clip as clamp
from .pool import avg_pool, global_pool, max_pool, max_pool_indices
from .reduce import argmax_ as argmax
from .reduce import argmin_ as argmin
from .reduce import logsumexp, max, mean, min, positions, prod, sum, var
from .resize import adaptive_avg_pool, pixel_shuffle, resize
from .sample import affine_grid, bilinear, deform_conv, grid_sample, warp
from .scan import gru_cell, lstm_cell, recur, rnn_cell, scan
from .segment import segment_dot, segment_spread, segment_sum
from .sort import argsort, sort, topk
from .sparse import sparse_matmul
from .special_functions import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan2,
    arctanh,
    digamma,
    erfinv,
    hypot,
    lerp,
    lgamma,
    logaddexp,
    logit,
)
from .steps import pack_padded, packed_steps, pad_packed
from .summaries import corrcoef, cov, diff, median, nanmax, nanmean, nanmin, nansum, quantile
from .view import expand, flip, fold_windows, pad, permute, reshape, transpose, windows

_tell(__name__)
_document(__name__)
_guide(__name__)
