"""Layers: formulas over ops, with their parameters. Importing this package registers all of them."""

from .attention import Attention, CrossAttention, GroupedQueryAttention, MultiHeadAttention, SelfAttention
from .base import Layer, no_tape
from .blocks import Residual
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose2d, DilatedConv2d
from .dense import BilinearGLU, Dense, FeedForward, GatedLinearUnit, GeGLU, Highway, ReGLU, SwiGLU
from .embedding import Embedding, PositionalEncoding, TimeEmbedding
from .experts import Expert, MixtureOfExperts
from .geometry import HyperbolicLinear, OctonionLinear
from .normalisation import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .pooling import AvgPool2d, GlobalPool, MaxPool2d, MaxPool3d, Pool2d
from .recurrent import GRU, LSTM, RNN, Bidirectional
from .shape import Crop2d, Input, Pad, SequenceLast, Split, TimeDistributed
from .sparse import LocallyConnected2d, SparseLinear
from .transformer import DecoderBlock, PatchEmbedding, TransformerDecoderBlock, TransformerEncoderBlock
from .utility import (
    Activation,
    Add,
    Concatenate,
    Dropout,
    Flatten,
    GaussianNoise,
    Lambda,
    LogVariance,
    Masking,
    Mean,
    Multiply,
    Reshape,
    Softmax,
)

__all__ = [
    "GRU", "LSTM", "RNN", "Activation", "Add", "Attention", "AvgPool2d", "BatchNorm", "Bidirectional", "BilinearGLU", "Concatenate",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Crop2d", "CrossAttention", "DecoderBlock", "Dense", "DilatedConv2d", "Dropout",
    "Embedding", "Expert", "FeedForward", "Flatten", "GatedLinearUnit", "GaussianNoise", "GeGLU", "GlobalPool", "GroupNorm",
    "GroupedQueryAttention", "Highway", "HyperbolicLinear", "Input", "InstanceNorm", "Lambda", "Layer", "LayerNorm", "LocallyConnected2d",
    "LogVariance", "Masking", "MaxPool2d", "MaxPool3d", "Mean", "MixtureOfExperts", "MultiHeadAttention", "Multiply", "OctonionLinear",
    "Pad", "PatchEmbedding", "Pool2d", "PositionalEncoding", "RMSNorm", "ReGLU", "Reshape", "Residual", "SelfAttention", "SequenceLast",
    "Softmax", "SparseLinear", "Split", "SwiGLU", "TimeDistributed", "TimeEmbedding", "TransformerDecoderBlock", "TransformerEncoderBlock",
    "no_tape",
]
