"""Layers: formulas over ops, with their parameters. Importing this package registers all of them."""

from ..names import guide as _guide
from .activation import PReLU
from .attention import Attention, CrossAttention, GroupedQueryAttention, MultiHeadAttention, SelfAttention
from .base import Layer, no_tape
from .blocks import Residual
from .boltzmann import RBM
from .capsule import Capsule, DigitCapsule, PrimaryCapsule
from .checkpoint import Checkpoint
from .convlstm import ConvLSTM2d
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    DeformConv2d,
    DepthwiseSeparableConv2d,
    DilatedConv2d,
    SeparableConv2d,
)
from .crf import CRF
from .dense import BilinearGLU, Dense, FeedForward, GatedLinearUnit, GeGLU, Highway, ReGLU, SwiGLU
from .densenet import DenseBlock, DenseBlockUnit, Transition
from .embedding import Embedding, PositionalEncoding, TimeEmbedding
from .experts import Expert, MixtureOfExperts
from .generators import RRDBNet, SpyNet, UNetDiscriminator
from .geometry import HyperbolicLinear, OctonionLinear
from .graph import DirectionalGraphConv, GraphConvolution, GraphIsomorphism, GraphSAGE, Readout
from .graph_attention import GraphAttention, GraphTransformer
from .graph_messages import PNA, EdgeConditionedConv, HeterogeneousGraphConv, MessagePassing
from .memory import MemoryRead, MemoryWrite
from .mesh import DiffusionConv, MeshEdgeConv, SpiralConv
from .mesh_pool import MeshPool
from .normalisation import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm, SpectralNorm
from .plasticity import SynapticPlasticity
from .pooler import AnomalyDetector, SpatialPooler
from .pooling import AdaptiveAvgPool2d, AvgPool2d, GlobalPool, MaxPool2d, MaxPool3d, Pool2d
from .quantum import Measurement, Quantum
from .rbf import RBF
from .recurrent import GRU, LSTM, RNN, Bidirectional
from .reservoir import Reservoir
from .residual import (
    RRDB,
    BasicBlock,
    BottleneckBlock,
    InvertedResidual,
    RepConv2d,
    ResidualDenseBlock,
    SqueezeExcitation,
)
from .shape import Crop2d, Input, Pad, SequenceLast, Split, TimeDistributed
from .sparse import LocallyConnected2d, SparseLinear
from .spatial import SpatialTransformer
from .spiking import Spiking
from .transformer import DecoderBlock, PatchEmbedding, TransformerDecoderBlock, TransformerEncoderBlock
from .upsampling import PixelShuffle, SubpixelConv2d, Upsample2d, Upsample3d
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
from .variational import Reconstruction, Reparameterize

__all__ = [
    "CRF", "GRU", "LSTM", "PNA", "RBF", "RBM", "RNN", "RRDB", "Activation", "AdaptiveAvgPool2d", "Add",
    "AnomalyDetector", "Attention", "AvgPool2d", "BasicBlock", "BatchNorm", "Bidirectional", "BilinearGLU",
    "BottleneckBlock", "Capsule", "Checkpoint", "Concatenate", "Conv1d", "Conv2d", "Conv3d", "ConvLSTM2d",
    "ConvTranspose2d", "Crop2d", "CrossAttention", "DecoderBlock", "DeformConv2d", "Dense", "DenseBlock",
    "DenseBlockUnit", "DepthwiseSeparableConv2d", "DiffusionConv", "DigitCapsule", "DilatedConv2d",
    "DirectionalGraphConv", "Dropout", "EdgeConditionedConv", "Embedding", "Expert", "FeedForward", "Flatten",
    "GatedLinearUnit", "GaussianNoise", "GeGLU", "GlobalPool", "GraphAttention", "GraphConvolution", "GraphIsomorphism",
    "GraphSAGE", "GraphTransformer", "GroupNorm", "GroupedQueryAttention", "HeterogeneousGraphConv", "Highway",
    "HyperbolicLinear", "Input", "InstanceNorm", "InvertedResidual", "Lambda", "Layer", "LayerNorm",
    "LocallyConnected2d", "LogVariance", "Masking", "MaxPool2d", "MaxPool3d", "Mean", "Measurement", "MemoryRead",
    "MemoryWrite", "MeshEdgeConv", "MeshPool", "MessagePassing", "MixtureOfExperts", "MultiHeadAttention", "Multiply",
    "OctonionLinear", "PReLU", "Pad", "PatchEmbedding", "PixelShuffle", "Pool2d", "PositionalEncoding",
    "PrimaryCapsule", "Quantum", "RMSNorm", "RRDBNet", "ReGLU", "Readout", "Reconstruction", "RepConv2d",
    "Reparameterize", "Reservoir", "Reshape", "Residual", "ResidualDenseBlock", "SelfAttention", "SeparableConv2d",
    "SequenceLast", "Softmax", "SparseLinear", "SpatialPooler", "SpatialTransformer", "SpectralNorm", "Spiking",
    "SpiralConv", "Split", "SpyNet", "SqueezeExcitation", "SubpixelConv2d", "SwiGLU", "SynapticPlasticity",
    "TimeDistributed", "TimeEmbedding", "TransformerDecoderBlock", "TransformerEncoderBlock", "Transition",
    "UNetDiscriminator", "Upsample2d", "Upsample3d", "no_tape",
]

_guide(__name__)
