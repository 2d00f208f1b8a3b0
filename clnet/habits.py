"""What Keras, PyTorch and scikit-learn call things, and what clnet calls them: the tables behind `clnet.names`.

A line is `their names -> ours`; an indented one goes on with it. What begins with a package of clnet is what to write;
anything else is how the sentence ends.
"""

from __future__ import annotations


def _table(lines: str) -> dict[str, str]:
    pairs = (line.partition(" -> ") for line in lines.strip().replace("\n  ", " ").splitlines())
    return {theirs: ours for names, _, ours in pairs for theirs in names.split()}


# Classes, functions and modules.
CALLED = _table("""
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
grad value_and_grad GradientTape -> clnet.gradients(loss, [w])
save -> a model saves itself: model.save(path).
randn rand normal uniform -> make it with NumPy: clnet.tensor(numpy.random.default_rng(0).normal(size=(2,
  3)).astype('float32')).
no_grad inference_mode enable_grad stop_gradient -> nothing is derived unless it is asked for: clnet.gradients(loss,
  [w]); ops.detach(x) is a constant.
float16 bfloat16 float32 float64 int32 int64 uint8 -> dtypes are texts: clnet.tensor(array, 'float32').
""")

# Attributes of layers and models.
LAYER = _table("""
fit train_on_batch fit_generator -> a Trainer trains: clnet.Trainer(model, loss, optimizer).fit((x, y), epochs=10).
compile -> loss and optimizer go to a Trainer: clnet.Trainer(model, loss, optimizer).
evaluate score -> a Trainer evaluates: clnet.Trainer(model, loss, optimizer).evaluate((x, y)).
predict -> a Trainer predicts in batches: trainer.predict(x); one batch is model.eval()(x).numpy().
predict_proba -> what the model gives, through ops.softmax: clnet.ops.softmax(model.eval()(x)).numpy().
state_dict get_weights weights -> values are in model.variables(): {name: v.numpy() for name, v in
  model.variables().items()}.
load_state_dict set_weights -> write model.load_weights(state_dict), or model.load({name: array}).
save_weights save_pretrained -> write model.save(path), which keeps the configuration too.
trainable_weights trainable_variables -> write model.parameters().
named_parameters -> write model.variables().items(), which has buffers too.
named_modules modules -> write clnet.model.files.layers(model).
to cuda -> write model.use("gpu").
cpu -> write model.use("cpu").
half bfloat16 -> write clnet.Trainer(..., precision="bf16").
zero_grad -> gradients do not add up: model.backward(g) sets them anew.
kernel -> clnet calls it weight.
add add_module -> write model.append(layer).
requires_grad_ requires_grad -> write model.freeze("layers.0.*"), or p.trainable = False.
input_shape output_shape -> write model.summary(shape).
get_config -> write model.config().
count_params num_parameters -> write model.summary(shape).parameters.
get_layer -> write model[0]; clnet.model.files.layers(model) has all by name.
call -> write forward(self, x).
register_buffer -> write self.name = new.buffer(array) in setup(self, new).
register_parameter add_weight -> write self.name = new.weight(rows, columns) in setup(self, new).
""")

# Attributes of tensors.
TENSOR = _table("""
backward grad requires_grad requires_grad_ retain_grad grad_fn -> dx, dw = clnet.gradients(y, [x, w]) gives gradients
  by any tensors, as values of their own.
to cuda cpu xpu to_device -> clnet.use("gpu") and `with clnet.on("intel"):` say where ops run, model.use(...) moves a
  model, .numpy() gives an array.
float half double bfloat16 int long short byte bool type type_as cast -> write x.astype("float32"), or another dtype.
view_as reshape_as -> write x.reshape(y.shape).
ravel -> write x.flatten(), or x.reshape(-1).
expand_dims -> write x.unsqueeze(axis), or x[None] for a new first axis.
scatter scatter_ scatter_add scatter_add_ scatter_reduce index_add index_add_ index_put index_put_ index_copy
  index_fill masked_scatter fill_ masked_fill_ copy_ put -> x.at[key].set(v), .add, .multiply, .min, .max give x with
  other values in places x[key]; x.put_along_axis(index, values, axis) has an index for every line.
gather take -> write x.take_along_axis(index, axis) as PyTorch's gather, x[index] for rows.
masked_select -> write x[mask].
repeat_interleave -> write x.repeat(repeats, axis); PyTorch's repeat is x.tile(repeats).
amax amin aminmax ptp -> write x.max(axes) and x.min(axes).
transpose t movedim -> write x.permute(order), x.swapaxes(a, b), x.T or x.mT.
dot mm bmm mv -> write a @ b.
clone copy -> a tensor never changes, so it needs no copy; x.numpy() gives an array.
nelement nbytes -> x.size counts elements.
ndimension -> x.ndim counts axes.
data -> x.numpy() is the value; what changes is a clnet.Variable.
""")

# Arguments of constructors and of ops: the first of ours that there is.
FIELDS = {theirs: tuple(ours.split()) for theirs, ours in _table("""
learning_rate eta alpha step_size eta0 -> lr
units n_units num_units -> out_features hidden_size features out_channels
filters n_filters -> out_channels hidden_channels
rate prob drop_prob drop_rate probability -> p
strides -> stride
dilation_rate -> dilation
use_bias -> bias
pool_size kernel ksize -> kernel_size
epsilon -> eps
beta_1 beta1 -> b1
beta_2 beta2 -> b2
clipnorm max_grad_norm gradient_clip -> clip_norm
clipvalue -> clip_value
decay l2 weight_decay_rate -> weight_decay
input_dim n_in in_dim -> in_features num_embeddings input_size in_channels
in_size input_features -> in_features input_size
output_dim out_dim n_out -> out_features embedding_dim
out -> out_features out_channels hidden_size
vocab_size num_tokens -> num_embeddings
features channels -> num_features embedding_dim d_model out_channels
dim -> num_features embedding_dim d_model out_channels axes axis
dims -> axes axis
axis -> axes
axes -> axis
keepdim keep_dims -> keepdims
correction unbiased -> ddof
nhead heads n_heads -> num_heads
dim_feedforward ffn_dim -> d_ff
key_dim -> head_dim
act act_fn activation_fn fn function -> activation name fn
size scale -> scale_factor
n_layers layers -> num_layers
target_shape -> shape
stddev sigma -> std
logits -> from_logits
hidden_dim hidden -> hidden_size
ignore_label -> ignore_index
class_weight class_weights -> weight
T_max -> t_max
criterion loss_fn loss_function -> loss
optim solver -> optimizer
""").items()}

# Arguments of functions that mean what one of ours does: a call with them is taken as it is meant.
ALIKE = {theirs: tuple(ours.split()) for theirs, ours in _table("""
axis dim dims -> axes axis
axes -> axis
keepdim keep_dims -> keepdims
correction -> ddof
""").items()}
UNSET = frozenset({"out", "dtype"})  # None of these says nothing: NumPy's own functions pass them on so

# Arguments that nothing has, and what to do.
ARGUMENTS = _table("""
lr learning_rate -> the optimizer has it: Adam(lr=...).
betas -> write b1=0.9, b2=0.999.
from_logits -> leave it out: CrossEntropyLoss takes logits.
input_shape batch_input_shape -> leave it out: the first call, or model.build(shape), binds the sizes.
batch_first -> leave it out: sequences are (batch, step, feature).
bidirectional -> wrap it: Bidirectional(layer=LSTM(hidden_size=...)).
data_format -> leave it out: channels come before the height.
kernel_initializer bias_initializer -> leave it out, and assign: layer.weight.assign(array).
kernel_regularizer -> give the optimizer weight_decay=.
inplace -> leave it out: memory is planned.
device -> leave it out: clnet.use(...) or model.use(...) choose.
dtype -> leave it out: parameters are float32.
negative_slope -> write Activation("leaky_relu", params={"slope": 0.2}).
padding_mode -> put a Pad layer in front.
params parameters -> leave it out: the Trainer gives them.
size_average reduce -> write reduction="mean", "sum" or "none".
name -> leave it out: the place in the model is the name.
out -> leave it out: ops make new tensors; NumPy's functions take arrays: x.numpy().
lr_scheduler schedule -> write lr=schedule.
""")

# Attributes of a Trainer.
TRAINER = _table("""
train train_on_batch partial_fit fit_generator -> fit(x, y, epochs=...) trains.
test score test_on_batch -> evaluate(x, y) gives loss and metrics.
predict_classes classify -> predict(x).argmax(1) gives the classes, predict_proba(x) their probabilities.
decision_function predict_on_batch transform -> predict(x) gives the model's outputs.
predict_log_proba -> the logarithm of predict_proba(x).
compile -> loss, optimizer and metrics go to Trainer(model, loss, optimizer, metrics=...).
summary -> trainer.model.summary() shows the layers.
weights get_weights state_dict parameters -> trainer.model has them: trainer.model.parameters().
load load_weights load_model -> trainer.model.load(path) reads values, fit(resume=path) takes a run up again.
save_weights save_model -> save(path) saves the model, save_checkpoint(path) the run.
lr learning_rate -> the optimizer has it: trainer.optimizer.lr.
zero_grad backward step -> fit(x, y) does all of a step.
""")

# Arguments of `Trainer.fit`: those of the same meaning are taken by their other names.
FIT = _table("""
validation_data val_data validation_split eval_set valid -> =validation
n_epochs num_epochs nb_epoch max_epochs -> =epochs
callback -> =callbacks
transform transforms augmentation augmentations data_augmentation -> =augment
random_state -> =seed
progress -> =verbose
lr learning_rate -> the optimizer has it: Adam(lr=...).
metrics -> the Trainer has them: Trainer(model, loss, optimizer, metrics=...).
loss optimizer -> the Trainer has it: Trainer(model, loss, optimizer).
shuffle -> samples are always shuffled, in the order of seed=.
initial_epoch -> resume=path takes a run up again.
steps_per_epoch validation_steps validation_freq validation_batch_size -> an epoch is all samples once; epochs= and
  batch_size= say the rest.
collate_fn -> data.Sequences(x, y) is for samples of several lengths.
workers use_multiprocessing max_queue_size num_workers -> arrays are in memory, there is nothing to load.
""")
