"""Layers: formulas over ops, with their parameters. Each is imported when somebody asks for it; see `names.offer`."""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from .activation import PReLU
    from .attention import Attention, CrossAttention, GroupedQueryAttention, MultiHeadAttention, SelfAttention
    from .base import Layer, no_tape
    from .blocks import Residual
    from .boltzmann import RBM
    from .capsule import Capsule, DigitCapsule, PrimaryCapsule
    from .checkpoint import Checkpoint
    from .continuum import ContinuumMemory
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
    from .temporal import TemporalMemory
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

__all__ = _offer(__name__, {
    "activation": "PReLU",
    "attention": "Attention CrossAttention GroupedQueryAttention MultiHeadAttention SelfAttention",
    "base": "Layer no_tape",
    "blocks": "Residual",
    "boltzmann": "RBM",
    "capsule": "Capsule DigitCapsule PrimaryCapsule",
    "checkpoint": "Checkpoint",
    "continuum": "ContinuumMemory",
    "convlstm": "ConvLSTM2d",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose2d DeformConv2d DepthwiseSeparableConv2d DilatedConv2d "
                   "SeparableConv2d",
    "crf": "CRF",
    "dense": "BilinearGLU Dense FeedForward GatedLinearUnit GeGLU Highway ReGLU SwiGLU",
    "densenet": "DenseBlock DenseBlockUnit Transition",
    "embedding": "Embedding PositionalEncoding TimeEmbedding",
    "experts": "Expert MixtureOfExperts",
    "generators": "RRDBNet SpyNet UNetDiscriminator",
    "geometry": "HyperbolicLinear OctonionLinear",
    "graph": "DirectionalGraphConv GraphConvolution GraphIsomorphism GraphSAGE Readout",
    "graph_attention": "GraphAttention GraphTransformer",
    "graph_messages": "PNA EdgeConditionedConv HeterogeneousGraphConv MessagePassing",
    "memory": "MemoryRead MemoryWrite",
    "mesh": "DiffusionConv MeshEdgeConv SpiralConv",
    "mesh_pool": "MeshPool",
    "normalisation": "BatchNorm GroupNorm InstanceNorm LayerNorm RMSNorm SpectralNorm",
    "plasticity": "SynapticPlasticity",
    "pooler": "AnomalyDetector SpatialPooler",
    "pooling": "AdaptiveAvgPool2d AvgPool2d GlobalPool MaxPool2d MaxPool3d Pool2d",
    "quantum": "Measurement Quantum",
    "rbf": "RBF",
    "recurrent": "GRU LSTM RNN Bidirectional",
    "reservoir": "Reservoir",
    "residual": "RRDB BasicBlock BottleneckBlock InvertedResidual RepConv2d ResidualDenseBlock SqueezeExcitation",
    "shape": "Crop2d Input Pad SequenceLast Split TimeDistributed",
    "sparse": "LocallyConnected2d SparseLinear",
    "spatial": "SpatialTransformer",
    "spiking": "Spiking",
    "temporal": "TemporalMemory",
    "transformer": "DecoderBlock PatchEmbedding TransformerDecoderBlock TransformerEncoderBlock",
    "upsampling": "PixelShuffle SubpixelConv2d Upsample2d Upsample3d",
    "utility": "Activation Add Concatenate Dropout Flatten GaussianNoise Lambda LogVariance Masking Mean Multiply "
               "Reshape Softmax",
    "variational": "Reconstruction Reparameterize",
})
