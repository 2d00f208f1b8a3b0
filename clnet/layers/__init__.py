"""Layers: formulas over ops, with their parameters. Importing this package registers all of them."""

from .attention import MultiHeadAttention, SelfAttention
from .base import Layer, no_tape
from .blocks import Residual
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose2d, DilatedConv2d
from .dense import Dense, FeedForward, SwiGLU
from .embedding import Embedding, PositionalEncoding
from .normalisation import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from .pooling import AvgPool2d, GlobalPool, MaxPool2d, MaxPool3d, Pool2d
from .recurrent import GRU, LSTM, RNN
from .transformer import TransformerEncoderBlock
from .utility import Activation, Add, Concatenate, Dropout, Flatten, Multiply, Reshape, Softmax

__all__ = [
    "GRU", "LSTM", "RNN", "Activation", "Add", "AvgPool2d", "BatchNorm", "Concatenate", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d",
    "Dense", "DilatedConv2d", "Dropout", "Embedding", "FeedForward", "Flatten", "GlobalPool", "GroupNorm", "InstanceNorm", "Layer", "LayerNorm",
    "MaxPool2d", "MaxPool3d", "MultiHeadAttention", "Multiply", "Pool2d", "PositionalEncoding", "RMSNorm", "Reshape", "Residual", "SelfAttention",
    "Softmax", "SwiGLU", "TransformerEncoderBlock", "no_tape",
]
