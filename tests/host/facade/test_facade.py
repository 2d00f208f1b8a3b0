"""Operations of the facade: names, examples, types, backwards."""

from __future__ import annotations

import pytest

from clnet.facade import OPERATIONS, Backward, Engine
from clnet.workbench.evidence import catalog, registry

# Names of the specification that are operations of an engine (layers,
# losses and optimizers have registries of their own).
WANTED = """
FusedLinear FusedLinearBackward FusedConv2D FusedConv3D FusedBatchNorm FusedLayerNorm FusedNorm FusedAttention FusedRNN
ScaledDotProductAttention ScaledDotProductAttentionBackward FlashAttention FlashAttentionBackward GroupedQueryAttention
GroupedQueryAttentionBackward RMSNorm RMSNormBackward GeGLU GeGLUBackward ScatterAdd ScatterAddBackward ScatterMean
ScatterMeanBackward ScatterMax ScatterMaxBackward TensorMatMul BatchMatMul TensorBroadcastAdd GemmBias GemmBiasRelu
GemmBiasGelu GemmBiasSigmoid GemmBiasTanh BiasAdd FusedGemmBiasActivation FusedLayerNormActivation
FusedResidualLayerNorm FusedScaledSoftmax FusedBiasDropout conv2d_backward_input conv2d_backward_weights
conv3d_backward_input conv3d_backward_weights batchnorm_backward layernorm_backward groupnorm_backward
instancenorm_backward maxpool2d_backward avgpool2d_backward global_avgpool_backward global_maxpool_backward
adaptive_avgpool_backward mse_backward cross_entropy_backward bce_backward embedding_backward dropout_backward
lstm_cell_forward lstm_cell_backward lstm_gates_precompute gru_cell_forward gru_cell_backward scatter_add_batched
sparse_mm_backward message_passing_backward GEMM GEMV
"""


def test_every_name_of_the_specification_is_there_and_measured() -> None:
    names = {o.spec_name for o in OPERATIONS.values()}
    assert not set(WANTED.split()) - names
    rows = {s.name for s in registry.subjects(["op"])}
    goals = {g.name for g in catalog.goals("op")}
    assert set(OPERATIONS) <= rows
    assert set(OPERATIONS) <= goals


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_documented_typed_and_has_a_backward(name: str) -> None:
    operation = OPERATIONS[name]
    assert (operation.__doc__ or "").strip() and operation.examples
    if not isinstance(operation, Backward):
        assert operation.function.__annotations__["return"]
        assert callable(getattr(Engine("numpy"), f"{name}_backward"))
