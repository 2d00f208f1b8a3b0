"""Which operations Engine has: a line each; their backward comes with them."""

from __future__ import annotations

from . import graphs, images, matrices, sequences


class Operations:
    """The specification's named operations as methods, each with a `..._backward(g, ...)`."""

    # products; transposed operands are read in place, and α, β, bias and activation melt into their launch
    gemm = matrices.gemm
    gemv = matrices.gemv
    batch_mat_mul = matrices.batch_mat_mul
    tensor_mat_mul = matrices.tensor_mat_mul
    bias_add = matrices.bias_add
    tensor_broadcast_add = matrices.tensor_broadcast_add
    gemm_bias = matrices.gemm_bias
    fused_gemm_bias_activation = matrices.fused_gemm_bias_activation
    gemm_bias_relu = matrices.gemm_bias_relu
    gemm_bias_gelu = matrices.gemm_bias_gelu
    gemm_bias_sigmoid = matrices.gemm_bias_sigmoid
    gemm_bias_tanh = matrices.gemm_bias_tanh
    fused_linear = matrices.fused_linear

    # images (N, C, H, W) and volumes (N, C, D, H, W)
    fused_conv2d = images.fused_conv2d
    fused_conv3d = images.fused_conv3d
    conv2d_backward_input = images.conv2d_backward_input
    conv2d_backward_weights = images.conv2d_backward_weights
    conv3d_backward_input = images.conv3d_backward_input
    conv3d_backward_weights = images.conv3d_backward_weights
    avg_pool2d = images.avg_pool2d
    max_pool2d = images.max_pool2d
    global_avg_pool = images.global_avg_pool
    global_max_pool = images.global_max_pool
    adaptive_avg_pool2d = images.adaptive_avg_pool2d
    fused_batch_norm = images.fused_batch_norm
    fused_layer_norm = images.fused_layer_norm
    fused_layer_norm_activation = images.fused_layer_norm_activation
    fused_norm = images.fused_norm
    fused_residual_layer_norm = images.fused_residual_layer_norm
    layer_norm = images.layer_norm
    rms_norm = images.rms_norm
    group_norm = images.group_norm
    instance_norm = images.instance_norm

    # heads (N, heads, T, d) and sequences (N, T, features)
    scaled_dot_product_attention = sequences.scaled_dot_product_attention
    flash_attention = sequences.flash_attention
    grouped_query_attention = sequences.grouped_query_attention
    fused_attention = sequences.fused_attention
    geglu = sequences.geglu
    swiglu = sequences.swiglu
    activate = sequences.activate
    fused_scaled_softmax = sequences.fused_scaled_softmax
    fused_bias_dropout = sequences.fused_bias_dropout
    lstm_gates_precompute = sequences.lstm_gates_precompute
    lstm_cell = sequences.lstm_cell
    gru_cell = sequences.gru_cell
    fused_rnn = sequences.fused_rnn

    # rows by number; sums run in the order of the edges, so two runs give equal bits
    scatter_add = graphs.scatter_add
    scatter_mean = graphs.scatter_mean
    scatter_max = graphs.scatter_max
    scatter_add_batched = graphs.scatter_add_batched
    embedding = graphs.embedding
    message_passing = graphs.message_passing
    sparse_mm = graphs.sparse_mm
    mse = graphs.mse
    softmax_cross_entropy = graphs.softmax_cross_entropy
    bce_with_logits = graphs.bce_with_logits
