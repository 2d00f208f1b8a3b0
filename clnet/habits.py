"""What Keras, PyTorch and scikit-learn call attributes and arguments, and what clnet calls them: tables of
`clnet.names`, as `clnet.called` is one.
"""

from __future__ import annotations

from .called import table

# Attributes of layers and models.
LAYER = table("""
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
half bfloat16 -> write model.astype("bfloat16") to keep parameters in 16 bits, and to train in mixed precision
  clnet.Trainer(..., precision="bf16").
float double type -> write model.astype("float32"), or another dtype.
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

# What models have, and layers alone, those of one's own too, do not.
MODEL = table("""
save load load_weights summary graph freeze unfreeze use -> a model has that: clnet.Sequential(layer), and Trainer takes
  either.
""")

# Attributes of tensors.
TENSOR = table("""
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
new_zeros new_ones new_full new_empty new_tensor -> write clnet.ops.zeros(shape), or clnet.tensor(array).
is_cuda get_device -> x.device says where it is.
register_hook -> clnet.gradients(y, [x]) gives the gradient by any tensor, also in the middle.
data -> x.numpy() is the value; what changes is a clnet.Variable.
""")

# Arguments of constructors and of ops: the first of ours that there is.
FIELDS = {theirs: tuple(ours.split()) for theirs, ours in table("""
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
vocab_size num_tokens -> num_embeddings letters words
num_classes n_classes num_labels n_labels out_classes -> classes channels
in_channels image_size img_size -> image
hidden_channels base_channels base_width init_features d_model n_embd -> width hidden
features channels -> num_features embedding_dim d_model out_channels
dim -> num_features embedding_dim d_model out_channels axes axis
dims -> axes axis
axis -> axes
axes -> axis
keepdim keep_dims -> keepdims
correction unbiased -> ddof
nhead heads n_heads n_head -> num_heads heads
dim_feedforward ffn_dim -> d_ff
key_dim -> head_dim
act act_fn activation_fn fn function -> activation name fn
size scale -> scale_factor
n_layers n_layer layers -> num_layers layers blocks
max_len seq_len block_size context_length -> context max_len
target_shape -> shape
stddev sigma -> std
logits -> from_logits
hidden_dim hidden -> hidden_size hidden
ignore_label -> ignore_index
class_weight class_weights -> weight
T_max -> t_max
T_0 -> t0
T_mult -> t_mult
base_lr initial_lr initial_learning_rate lr0 init_lr -> lr
step_size_up -> step_up
step_size_down -> step_down
warmup warmup_epochs num_warmup_steps -> warmup_steps
decay_steps num_training_steps total_iters -> total_steps t_max
decay_rate -> gamma
tau q -> quantile
restore_best_weights -> restore_best
save_best_only -> best_only
filepath filename dirpath -> path folder
attn_dropout dropout_rate -> dropout
num_heads_kv -> num_kv_heads
num_heads -> heads
num_layers -> blocks layers
criterion loss_fn loss_function -> loss
optim solver -> optimizer
learning_rate_init -> learning_rate
epochs n_epochs num_epochs -> max_iter
""").items()}

# Arguments of functions that mean what one of ours does: a call with them is taken as it is meant.
ALIKE = {theirs: tuple(ours.split()) for theirs, ours in table("""
axis dim dims -> axes axis
axes -> axis
keepdim keep_dims -> keepdims
correction -> ddof
""").items()}
UNSET = frozenset({"out", "dtype"})  # None of these says nothing: NumPy's own functions pass them on so

# Arguments that nothing has, and what to do.
ARGUMENTS = table("""
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
padding_mode -> put a Pad layer in front: Pad(padding=1, mode="reflect").
stateful -> leave it out: LSTM(..., return_state=True) gives h and c, which the next call takes, lstm(x, h, c).
mask_zero -> leave it out: data.Sequences(x, y) knows the lengths.
requires_grad -> leave it out: clnet.gradients(y, [x]) derives by any tensor.
training -> leave it out: model.train() and model.eval() say which it is, a Trainer does so itself.
attn_mask attention_mask key_padding_mask src_mask tgt_mask src_key_padding_mask -> write mask=, True where a key may be
  seen (where MultiheadAttention of PyTorch has False).
is_causal -> the layer knows: MultiHeadAttention(..., causal=True).
need_weights average_attn_weights -> leave it out: the layer gives its output alone.
initial_state hx -> give h, of an LSTM h and c, behind x: lstm(x, h, c), each (num_layers, N, hidden_size).
in_features in_channels input_size -> leave it out: the first call, or model.build(shape), binds the sizes.
pretrained weights -> leave it out: model.build(shape).load_weights(path) takes values from a file.
key counter -> a layer's own are self.random.key and self.random.advance(), those of a loop clnet.Generator(seed)'s.
params parameters -> leave it out: the Trainer gives them.
size_average reduce -> write reduction="mean", "sum" or "none".
name -> leave it out: the place in the model is the name.
out -> leave it out: ops make new tensors; NumPy's functions take arrays: x.numpy().
lr_scheduler schedule -> write lr=schedule.
""")

# Attributes of optimizers, and of schedules.
OPTIMIZER = table("""
zero_grad step param_groups add_param_group minimize apply_gradients backward -> a Trainer does all of a step:
  clnet.Trainer(model, loss, optimizer).fit(x, y); a loop of one's own sets p.grad = g for p, g in zip(weights,
  clnet.gradients(loss, weights)) and calls optimizer.update(weights).
learning_rate -> its rate is optimizer.lr.
get_config -> write optimizer.config().
defaults -> write optimizer.config().
""")
SCHEDULE = table("""
step -> it counts the steps of the optimizer that it was given to: SGD(lr=schedule); schedule.at(t) is its rate.
get_last_lr get_lr last_epoch -> write schedule.at(t), the rate of step t = 0, 1, ...
""")

# Attributes of a Trainer.
TRAINER = table("""
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
FIT = table("""
validation_data val_data validation_split eval_set valid -> =validation
n_epochs num_epochs nb_epoch max_epochs -> =epochs
callback -> =callbacks
transform transforms augmentation augmentations data_augmentation -> =augment
random_state -> =seed
progress -> =verbose
lr learning_rate -> the optimizer has it: Adam(lr=...).
metrics -> the Trainer has them: Trainer(model, loss, optimizer, metrics=...).
loss optimizer -> the Trainer has it: Trainer(model, loss, optimizer).
shuffle -> samples are always shuffled, in the order of seed=; drop it.
initial_epoch -> resume=path takes a run up again.
steps_per_epoch validation_steps validation_freq validation_batch_size -> an epoch is all samples once; epochs= and
  batch_size= say the rest.
collate_fn -> data.Sequences(x, y) is for samples of several lengths.
workers use_multiprocessing max_queue_size num_workers -> arrays are in memory, there is nothing to load.
""")
AS_IT_IS = {"shuffle": True, "initial_epoch": 0, "validation_freq": 1}  # what they say is so anyway, as is None
