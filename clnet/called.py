"""What Keras, PyTorch and scikit-learn call classes, functions and modules, and what clnet calls them.

A line is `their names -> ours`; an indented one goes on with it. What begins with a package of clnet is what to write;
anything else is how the sentence ends.
"""

from __future__ import annotations


def table(lines: str) -> dict[str, str]:
    """The pairs of such lines."""
    pairs = (line.partition(" -> ") for line in lines.strip().replace("\n  ", " ").splitlines())
    return {theirs: ours for names, _, ours in pairs for theirs in names.split()}


CALLED = table("""
Linear LazyLinear FullyConnected FC -> layers.Dense(out_features=...)
MaxPooling2D MaxPool -> layers.MaxPool2d(kernel_size=...)
MaxPooling3D -> layers.MaxPool3d(kernel_size=...)
AveragePooling2D AvgPool -> layers.AvgPool2d(kernel_size=...)
AdaptiveAveragePooling2D -> layers.AdaptiveAvgPool2d(output_size=...)
GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool2d GlobalAvgPool ->
  layers.GlobalPool()
GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D GlobalMaxPool2d GlobalMaxPool AdaptiveMaxPool2d ->
  layers.GlobalPool(mode="max")
BatchNormalization BatchNorm1d BatchNorm2d BatchNorm3d -> layers.BatchNorm()
LayerNormalization -> layers.LayerNorm()
GroupNormalization -> layers.GroupNorm(num_groups=...)
InstanceNorm1d InstanceNorm2d InstanceNorm3d -> layers.InstanceNorm()
RMSNormalization -> layers.RMSNorm()
SpectralNormalization -> layers.SpectralNorm(layer=...)
Convolution1D -> layers.Conv1d(out_channels=..., kernel_size=...)
Convolution2D Conv -> layers.Conv2d(out_channels=..., kernel_size=...)
Convolution3D -> layers.Conv3d(out_channels=..., kernel_size=...)
Conv2DTranspose Deconv2d Convolution2DTranspose -> layers.ConvTranspose2d(out_channels=..., kernel_size=...)
DepthwiseConv2D -> layers.Conv2d(out_channels=..., kernel_size=..., groups=in_channels)
UpSampling2D Upsample UpsamplingNearest2d UpsamplingBilinear2d -> layers.Upsample2d(scale_factor=...)
UpSampling3D -> layers.Upsample3d(scale_factor=...)
ZeroPadding1D ZeroPadding2D ZeroPadding3D ZeroPad2d ConstantPad2d ReflectionPad2d ReplicationPad2d CircularPad2d ->
  layers.Pad(padding=...)
Cropping2D -> layers.Crop2d(crop=...)
SimpleRNN -> layers.RNN(hidden_size=...)
LSTMCell -> layers.LSTM(hidden_size=...)
GRUCell -> layers.GRU(hidden_size=...)
Identity -> layers.Activation("linear")
Unflatten -> layers.Reshape(shape=...)
GLU -> layers.GatedLinearUnit(out_features=...)
TransformerEncoderLayer TransformerEncoder -> layers.TransformerEncoderBlock(num_heads=...)
TransformerDecoderLayer -> layers.TransformerDecoderBlock(num_heads=...)
PositionalEmbedding SinusoidalPositionEncoding -> layers.PositionalEncoding()
Module -> layers.Layer
Concat Merge -> layers.Concatenate()
ModuleList ModuleDict ParameterList -> an attribute of a layer that is a list or a dict of layers is enough.
ReLU -> layers.Activation("relu")
LeakyReLU -> layers.Activation("leaky_relu")
Sigmoid -> layers.Activation("sigmoid")
Tanh -> layers.Activation("tanh")
GELU -> layers.Activation("gelu")
SiLU -> layers.Activation("silu")
Swish -> layers.Activation("swish")
ELU -> layers.Activation("elu")
SELU -> layers.Activation("selu")
CELU -> layers.Activation("celu")
ReLU6 -> layers.Activation("relu6")
Mish -> layers.Activation("mish")
Softplus -> layers.Activation("softplus")
Softsign -> layers.Activation("softsign")
Hardtanh -> layers.Activation("hard_tanh")
Hardswish -> layers.Activation("hard_swish")
Hardsigmoid -> layers.Activation("hard_sigmoid")
LogSoftmax -> layers.Activation("log_softmax")
MSE MeanSquaredError L2Loss -> losses.MSELoss()
MAE MeanAbsoluteError L1Loss -> losses.MAELoss()
RMSE RootMeanSquaredError -> losses.RMSELoss()
CrossEntropy Crossentropy -> losses.CrossEntropyLoss()
NLLLoss -> losses.CrossEntropyLoss()
BCE BinaryCrossentropy BinaryCrossEntropyLoss -> losses.BCELoss()
BCEWithLogitsLoss BCEWithLogits MultiLabelSoftMarginLoss -> losses.BCELoss(from_logits=True)
SmoothL1Loss -> losses.HuberLoss()
KLDivergence KLD -> losses.KLDivLoss()
CosineEmbeddingLoss -> losses.CosineSimilarityLoss()
TripletMarginLoss -> losses.TripletLoss()
PoissonNLLLoss -> losses.PoissonLoss()
IoULoss -> losses.JaccardLoss()
GaussianNLLLoss -> there is none; write a function (output, target) -> scalar in ops.
Nesterov -> optimizers.NAG(lr=...)
CosineDecay CosineLR -> optimizers.CosineAnnealingLR(lr=..., t_max=...)
ExponentialDecay -> optimizers.ExponentialLR(lr=...)
PiecewiseConstantDecay -> optimizers.MultiStepLR(lr=..., milestones=...)
PolynomialDecay -> optimizers.PolynomialLR(lr=..., total_steps=...)
LinearLR WarmupLR -> optimizers.LinearWarmup(lr=..., warmup_steps=...)
LearningRateScheduler -> optimizers.LambdaLR(fn=...)
lr_scheduler schedulers -> schedules are in clnet.optimizers, and given to an optimizer as lr.
DataLoader -> train.Batches(data, size=64)
pad_sequence pad_sequences -> data.Sequences(x, y)
pack_sequence pack_padded_sequence pad_packed_sequence -> data.PackedSequences(x, y)
TensorDataset ArrayDataset -> data.from_arrays(x, y)
train_test_split random_split -> data.from_arrays(x, y).split(test=0.2)
CSVLogger TensorBoard -> train.CSVLog(path)
RandomFlip -> augment.RandomHorizontalFlip()
RandomZoom -> augment.RandomAffine(scale=(0.8, 1.2))
RandomTranslation -> augment.RandomAffine(translate=0.1)
RandomBrightness RandomContrast RandomSaturation RandomHue RandomColorJitter -> augment.ColorJitter()
Cutout RandomErase -> augment.RandomErasing()
ImageDataGenerator -> fit(x, y, augment=["flip", "crop"]) changes images at random, see clnet.augment.
Normalize Normalise Rescaling -> predictions see it, too, so it belongs to the data, (x - mean) / std, or to the model,
  with a BatchNorm first.
cat concatenate append -> ops.concat([a, b], 0)
vstack row_stack -> ops.concat([a, b], 0)
hstack column_stack -> ops.concat([a, b], 1)
dstack -> ops.concat([a, b], 2)
unstack -> ops.unbind(x, axis)
array_split tensor_split -> ops.chunk(x, parts, axis)
dot mm bmm mv matvec vecmat baddbmm addmm multi_dot -> ops.matmul(a, b)
inner -> ops.matmul(a, b.mT)
vdot -> it is ops.sum(a * b).
expand_dims atleast_1d atleast_2d -> ops.unsqueeze(x, axis)
view unflatten -> ops.reshape(x, shape)
ravel -> ops.flatten(x)
broadcast_to -> ops.expand(x, shape)
fliplr flipud -> ops.flip(x, axes)
movedim rollaxis -> ops.moveaxis(x, source, target)
swapdims -> ops.swapaxes(x, a, b)
repeat_interleave -> ops.repeat(x, repeats, axis)
diagflat diag_embed -> ops.diag(x)
empty empty_like -> ops.zeros(x.shape)
take index_copy -> ops.gather(x, index, axis)
masked_select compress extract -> x[mask] selects by a mask.
scatter scatter_ scatter_reduce put -> ops.put_along_axis(x, index, values, axis)
index_add index_put index_fill -> x.at[index].add(values), .set, .multiply, .min, .max give x with other values there.
segment_max -> ops.scatter_max(source, index, rows)
argwhere flatnonzero -> ops.nonzero(x)
digitize bucketize -> ops.searchsorted(edges, x)
amax -> ops.max(x, axes)
amin -> ops.min(x, axes)
aminmax ptp -> it is ops.max(x, axes) and ops.min(x, axes).
average std_mean var_mean -> it is ops.mean(x, axes) beside ops.std or ops.var; weights are factors of x.
percentile -> ops.quantile(x, q / 100, axes)
nanmedian nanquantile nanpercentile nanstd nanvar -> x[~ops.isnan(x)] leaves NaN out.
cummin -> it is ops.cummax(-x), which gives minima of x with their signs changed.
absolute fabs -> ops.abs(x)
subtract -> ops.sub(x, y)
multiply -> ops.mul(x, y)
divide true_divide -> ops.div(x, y)
floor_divide -> ops.floordiv(x, y)
remainder -> ops.mod(x, y)
power float_power -> ops.pow(x, y)
negative -> ops.neg(x)
rint around -> ops.round(x)
fix -> ops.trunc(x)
expit -> ops.sigmoid(x)
asin -> ops.arcsin(x)
acos -> ops.arccos(x)
atan -> ops.arctan(x)
atan2 -> ops.arctan2(x, y)
asinh -> ops.arcsinh(x)
acosh -> ops.arccosh(x)
atanh -> ops.arctanh(x)
gammaln -> ops.lgamma(x)
psi -> ops.digamma(x)
fmod -> it is x - y * ops.trunc(x / y).
fmax fmin -> it is ops.maximum(x, y) and ops.minimum(x, y), in which NaN wins.
bitwise_and -> ops.bit_and(x, y)
bitwise_or -> ops.bit_or(x, y)
bitwise_xor -> ops.bit_xor(x, y)
bitwise_not -> ops.invert(x)
eq -> ops.equal(x, y)
ne -> ops.not_equal(x, y)
gt -> ops.greater(x, y)
ge -> ops.greater_equal(x, y)
lt -> ops.less(x, y)
le -> ops.less_equal(x, y)
addcmul -> it is x + value * a * b.
addcdiv -> it is x + value * a / b.
conv1d conv2d conv3d convolution -> ops.conv(x, weight, bias, stride, padding)
conv_transpose1d conv_transpose2d conv_transpose3d -> ops.conv_transpose(x, weight, bias, stride, padding)
max_pool1d max_pool2d max_pool3d -> ops.max_pool(x, size, stride, padding)
avg_pool1d avg_pool2d avg_pool3d -> ops.avg_pool(x, size, stride, padding)
scaled_dot_product_attention multi_head_attention_forward -> ops.attention(q, k, v, mask, causal)
normalize l2_normalize -> it is x / ops.maximum(ops.norm(x, axis, keepdims=True), 1e-12).
cosine_similarity -> it is ops.sum(a * b, axis) / (ops.norm(a, axis) * ops.norm(b, axis)).
kl_div -> losses.KLDivLoss()
cdist -> it is ops.norm(x[:, None] - y[None], -1).
unfold -> ops.windows(x, size, stride)
fold -> ops.fold_windows(x, n, size, stride, dilation)
interpolate -> ops.resize(x, size)
tril_indices -> it is ops.nonzero(ops.tril(ops.ones((n, n)))).
triu_indices -> it is ops.nonzero(ops.triu(ops.ones((n, n)))).
logspace geomspace -> it is base ** ops.linspace(start, stop, num).
vmap fori_loop -> it is ops.scan(step, init, xs), which walks over an axis; other axes broadcast.
nn keras -> clnet.layers
optim optimizer optimisers -> clnet.optimizers
functional F -> clnet.ops
callbacks -> clnet.train
loss criterion -> clnet.losses
datasets -> clnet.data
transforms augmentation augmentations -> clnet.augment
manual_seed set_seed set_random_seed -> clnet.seed(0)
cuda device set_device set_default_device -> clnet.use("gpu")
is_available list_devices -> clnet.devices()
load_model -> clnet.load(path)
array as_tensor from_numpy asarray -> clnet.tensor(array)
jit compile function -> clnet.Recorded(function)
grad value_and_grad GradientTape jacrev jacfwd hessian -> clnet.gradients(loss, [w])
clip_grad_norm_ clip_grad_norm clip_grad_value_ clip_by_global_norm -> an optimizer clips: Adam(clip_norm=1.0), or
  clip_value=.
utils -> data sets are in clnet.data, and fit makes the batches.
save -> a model saves itself: model.save(path).
randn rand normal uniform randn_like rand_like -> in a layer's forward ops.random.normal(x.shape, self.random.key,
  self.random.advance()) draws anew in every step; numbers that stay are NumPy's:
  clnet.tensor(numpy.random.default_rng(0).normal(size=(2, 3)).astype('float32')).
no_grad inference_mode enable_grad stop_gradient -> nothing is derived unless it is asked for: clnet.gradients(loss,
  [w]); ops.detach(x) is a constant.
float16 bfloat16 float32 float64 int32 int64 uint8 -> dtypes are texts: clnet.tensor(array, 'float32').
""")
