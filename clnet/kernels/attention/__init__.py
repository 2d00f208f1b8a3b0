"""Attention and its gradient. Asked in this order; the first that can serves:

    0  wgmma            attention_wgmma.cl   tensor cores of Hopper
    1  mma              attention_tensor.cl  tensor cores from compute capability 8.0 on
    2  on_cores         attention.cl         CPUs: everything else
       in_local_memory  attention_gpu.cl     GPUs: everything else

attention_pack.cl packs operands for the first two.
"""

from . import attention, attention_gpu, attention_tensor, attention_wgmma
