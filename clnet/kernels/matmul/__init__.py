"""Matrix products. Asked in this order; within a rank the shortest estimate serves:

    0  dot      matmul_dot.cl    CPUs: few rows or columns, operands contiguous along k
    1  panel    matmul.cl        CPUs: everything else
    2  thin     matmul_thin.cl   GPUs: few rows or columns
       wgmma    matmul_wgmma.cl  tensor cores of Hopper
       mma      matmul_mma.cl    tensor cores from compute capability 8.0 on
       tiles    matmul_gpu.cl    GPUs: everything else
"""

# In the order in which they serve where estimates are equal.
from . import matmul_dot, matmul, matmul_thin, matmul_wgmma, matmul_mma, matmul_gpu  # noqa: I001
from .problem import Product, product
