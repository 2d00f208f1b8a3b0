"""Convolutions, their data gradients ("conv") and weight gradients ("conv_weight_gradient"): who serves when.

A problem (problem.py) is asked from top to bottom; the first that takes it serves, and where one number stands before
several, the one with the shortest estimate does. Refused by all: the formulas of clnet.ops.conv serve, by products of
matrices and sums over windows; so they do for 1x1 kernels without steps (but see problem.by_product).

    conv, conv_data_gradient
    0  mma                 conv_mma.cl                 3 to 64 channels in 16 bits, tensor cores from 8.0 on
    1  wgmma               conv_wgmma.cl               16 bits or less precision, Hopper's tensor cores
       deep                conv_deep.cl                CPUs: many channels and few results
    2  direct              conv_gpu.cl                 GPUs: up to 8 result channels a group
       winograd            conv_winograd.cl            CPUs: 3x3 with stride 1, 16 channels or more
    3  tiles               conv_gpu.cl                 GPUs: every shape
       winograd_gpu        conv_winograd_gpu.cl        GPUs: 3x3 with stride 1, 16 products for 36
       winograd4_gpu       conv_winograd4_gpu.cl       GPUs: the same, 36 products for 144
       winograd_products   conv_winograd_products.cl   GPUs: the same, operands stored, by matmul_gpu.cl
       plane               conv_plane.cl               CPUs: few result channels a group, depthwise above all
    4  blocks              conv.cl                     CPUs: every shape

    conv_weight_gradient
    0  mma_weights                 conv_mma.cl                 as above
    1  wgmma_weights               conv_wgmma.cl               as above, but for TF32
    2  tiles_weights               conv_gpu.cl                 GPUs: every shape
       winograd4_gpu_weights       conv_winograd4_gpu.cl       GPUs: 3x3 with stride 1
       winograd_products_weights   conv_winograd_products.cl   GPUs: 3x3 with stride 1
       plane_weights               conv_plane.cl               CPUs: few result channels a group
    3  winograd_weights            conv_winograd.cl            CPUs: 3x3 with stride 1
    4  blocks_weights              conv.cl                     CPUs: every shape
"""

from . import (
    conv,
    conv_deep,
    conv_gpu,
    conv_mma,
    conv_plane,
    conv_wgmma,
    conv_winograd,
    conv_winograd4_gpu,
    conv_winograd_gpu,
    conv_winograd_products,
)
from .problem import convolution, weight_gradient

__all__ = ["convolution", "weight_gradient", "conv", "conv_deep", "conv_gpu", "conv_mma", "conv_plane", "conv_wgmma",
           "conv_winograd", "conv_winograd4_gpu", "conv_winograd_gpu", "conv_winograd_products"]
