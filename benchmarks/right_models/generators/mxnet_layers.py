"""Layers of MXNet with one input, with both values of every argument that one of its exporters drops or misreads: `GRID`."""

import itertools

import mxnet as mx

S = mx.sym


class Layer(object):
    """A layer of one input. `rank`: of which input ranks it makes sense; empty for any."""

    def __init__(self, text, build, rank=()):
        self.text, self.build, self.rank = text, build, rank


GRID = []


def add(operator, rank=(), **grid):
    """A layer for each combination of argument values."""
    names = sorted(grid)
    for values in itertools.product(*(grid[name] for name in names)):
        arguments = {name: value for name, value in zip(names, values) if value is not OMIT}
        text = "%s(%s)" % (operator, ", ".join("%s=%s" % item for item in sorted(arguments.items())))
        GRID.append(Layer(text, lambda x, shape, arguments=arguments: getattr(S, operator)(x, **arguments), rank))


class OMIT(object):
    """Stands for: leave the argument out."""


BOTH = [False, True]

add(
    "Pooling",
    (4,),
    pool_type=["avg", "max"],
    kernel=[(2, 2), (3, 3)],
    stride=[(1, 1), (2, 2)],
    pad=[(0, 0), (1, 1)],
    pooling_convention=["valid", "full"],
)
add(
    "Pooling",
    (4,),
    pool_type=["avg"],
    kernel=[(2, 2), (3, 3), (3, 2)],
    stride=[(1, 1), (2, 2)],
    pad=[(0, 0), (1, 1), (1, 0)],
    count_include_pad=BOTH,
    pooling_convention=["valid", "full"],
)
add("Pooling", (4,), pool_type=["avg", "max"], kernel=[(2, 2)], global_pool=[True], pad=[OMIT, (1, 1)])
add(
    "Pooling",
    (3,),
    pool_type=["avg", "max"],
    kernel=[(2,), (3,)],
    stride=[(1,), (2,)],
    pad=[(0,), (1,)],
    count_include_pad=[OMIT, False],
)
add(
    "Pooling",
    (4,),
    pool_type=["lp"],
    kernel=[(2, 2)],
    p_value=[1, 2],
    stride=[(1, 1), (2, 2)],
    pooling_convention=["valid", "full"],
)
add(
    "Pooling",
    (5,),
    pool_type=["avg", "max"],
    kernel=[(2, 2, 2)],
    stride=[(1, 1, 1), (2, 2, 2)],
    count_include_pad=[OMIT, False],
    pad=[OMIT, (1, 1, 1)],
)
add("BatchNorm", (2, 3, 4, 5), fix_gamma=[True, False, OMIT], eps=[OMIT, 2e-5, 1e-3], use_global_stats=[OMIT, True])
add("BatchNorm", (3, 4), fix_gamma=BOTH, axis=[1, -1, 2])
add("FullyConnected", (2, 3, 4), num_hidden=[4, 5], no_bias=BOTH, flatten=[OMIT, True, False])
add(
    "Convolution",
    (4,),
    kernel=[(1, 1), (3, 3), (3, 2)],
    num_filter=[4],
    pad=[OMIT, (1, 1)],
    stride=[OMIT, (2, 2)],
    no_bias=BOTH,
)
add("Convolution", (4,), kernel=[(3, 3)], num_filter=[4], dilate=[(2, 2)], pad=[(2, 2)], num_group=[1, 2])
add("Convolution", (3,), kernel=[(3,)], num_filter=[4], pad=[OMIT, (1,)], no_bias=BOTH)
add(
    "Deconvolution",
    (4,),
    kernel=[(2, 2), (3, 3)],
    num_filter=[3],
    stride=[(1, 1), (2, 2)],
    pad=[OMIT, (1, 1)],
    no_bias=BOTH,
    adj=[OMIT],
)
add("Deconvolution", (4,), kernel=[(3, 3)], num_filter=[3], stride=[(2, 2)], pad=[(1, 1)], adj=[(1, 1), (0, 1)], no_bias=BOTH)
add("Activation", act_type=["relu", "sigmoid", "tanh", "softrelu", "softsign"])
add("LeakyReLU", act_type=["leaky"], slope=[OMIT, 0.01, 0.1, 0.25])
add("LeakyReLU", act_type=["elu"], slope=[OMIT, 1.0, 0.25])
add("LeakyReLU", (2, 3, 4, 5), act_type=["prelu"])
add("LeakyReLU", act_type=["selu", "gelu"])
add("softmax", axis=[OMIT, -1, 1], temperature=[OMIT, 1.0, 2.0])
add("softmax", (3, 4), axis=[0, 1, 2], temperature=[OMIT])
add("log_softmax", axis=[OMIT, -1, 1], temperature=[OMIT, 2.0])
add("SoftmaxActivation", mode=[OMIT, "instance", "channel"])
for scalar in (2.0, 0.5, -1.5, 1.0, 3.0):
    for sign, function in (
        ("x+%s", lambda x, s: x + s),
        ("x-%s", lambda x, s: x - s),
        ("%s-x", lambda x, s: s - x),
        ("x*%s", lambda x, s: x * s),
        ("x/%s", lambda x, s: x / s),
        ("%s/(|x|+1)", lambda x, s: s / (S.abs(x) + 1)),
        ("(|x|+1)**%s", lambda x, s: (S.abs(x) + 1) ** s),
    ):
        GRID.append(Layer(sign % scalar, lambda x, shape, function=function, scalar=scalar: function(x, scalar)))
for operator in ("sum", "mean", "max", "min", "prod"):
    add(operator, axis=[OMIT, 0, 1, -1, (0, 1)], keepdims=BOTH)
    add(operator, (3, 4), axis=[1, (1, 2)], keepdims=BOTH, exclude=BOTH)
add("norm", ord=[OMIT, 1, 2], axis=[1, -1], keepdims=BOTH)
add("argmax", axis=[0, 1, -1], keepdims=BOTH)
add("argmin", axis=[0, 1], keepdims=BOTH)
add("Reshape", shape=[(-1,), (0, -1), (-1, 0), (0, -2), (-3, -2), (1, -1), (2, -1)])
add("Reshape", (3, 4), shape=[(0, -3), (-4, 1, -1, -2), (-1, 0, 0), (0, 0, -1)], reverse=BOTH)
add("Flatten")
add("transpose", axes=[OMIT, (1, 0)])
add("transpose", (4,), axes=[(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0)])
add("transpose", (3,), axes=[(0, 2, 1), (2, 0, 1)])
add("expand_dims", axis=[0, 1, -1])
add("squeeze", axis=[OMIT, 0])
add("SwapAxis", (2, 3, 4), dim1=[0], dim2=[1])
add("tile", reps=[(2,), (1, 2), (2, 1, 1), (1, 1, 2, 1)])
add("repeat", repeats=[2], axis=[1])
add("slice_axis", axis=[1, -1], begin=[0, 1], end=[None, 2, -1])
add("slice", begin=[(0,), (None, 1)], end=[(1,), (None, 2)])
add("slice", (3, 4), begin=[(0, 1, 0)], end=[(1, 3, 3)], step=[OMIT, (1, 2, 1)])
add("clip", a_min=[-1.0, 0.0], a_max=[1.0, 6.0])
add("Pad", (4,), mode=["constant"], pad_width=[(0, 0, 0, 0, 1, 2, 3, 0), (0, 0, 0, 0, 1, 1, 1, 1)], constant_value=[0.0, 1.5])
add("Pad", (4,), mode=["edge", "reflect"], pad_width=[(0, 0, 0, 0, 1, 2, 2, 1)])
add("LRN", (4,), nsize=[3, 5], alpha=[OMIT, 1e-2], beta=[OMIT, 0.5], knorm=[OMIT, 1.0, 2.0])
add("L2Normalization", (2, 3, 4), mode=["instance", "channel", "spatial"], eps=[OMIT, 1e-3])
add("InstanceNorm", (3, 4), eps=[OMIT, 1e-5])
add("LayerNorm", (2, 3), axis=[-1], eps=[OMIT, 1e-3])
add("Dropout", p=[0.5])
add("Dropout", p=[0.5], mode=["training"])
add("UpSampling", (4,), scale=[2, 3], sample_type=["nearest"])
add("Cast", dtype=["float32"])
add("hard_sigmoid", alpha=[OMIT, 0.3], beta=[OMIT, 0.4])
add("broadcast_axis", axis=[0], size=[1])
add("reverse", axis=[1])
add("one_hot", (2,), depth=[3])
for operator in (
    "abs ceil floor round rint fix trunc exp sin cos tan arctan negative square sigmoid tanh relu softsign reciprocal BlockGrad MakeLoss "
    "identity zeros_like ones_like sign logical_not erf cbrt flatten shape_array size_array"
).split():
    if hasattr(S, operator):
        add(operator)
for text, function in (
    ("sqrt|x|", lambda x: S.sqrt(S.abs(x) + 0.1)),
    ("log|x|", lambda x: S.log(S.abs(x) + 0.5)),
    ("x+x", lambda x: x + x),
    ("elemwise_mul", lambda x: S.elemwise_mul(x, S.relu(x))),
    ("elemwise_sub", lambda x: S.elemwise_sub(S.relu(x), x)),
    ("broadcast_add mean", lambda x: S.broadcast_add(x, S.mean(x, axis=0, keepdims=True))),
    ("broadcast_sub mean", lambda x: S.broadcast_sub(x, S.mean(x, axis=1, keepdims=True))),
    ("broadcast_mul max", lambda x: S.broadcast_mul(x, S.max(x, axis=0, keepdims=True))),
    ("broadcast_div", lambda x: S.broadcast_div(x, S.sum(S.abs(x), axis=1, keepdims=True) + 1)),
    ("maximum 0.5", lambda x: S.broadcast_maximum(x, S.relu(x))),
    ("_maximum_scalar", lambda x: S.maximum(x, 0.5)),
    ("_minimum_scalar", lambda x: S.minimum(x, 0.5)),
    ("greater", lambda x: x > 0.25),
    ("lesser", lambda x: x < 0.25),
    ("greater_equal", lambda x: x >= 0),
    ("not_equal", lambda x: S.broadcast_not_equal(S.round(x), S.floor(x))),
    ("equal", lambda x: S.broadcast_equal(S.round(x), S.floor(x))),
    ("logical_and", lambda x: S.broadcast_logical_and(x > 0, x < 1)),
    ("where", lambda x: S.where(x > 0, x, x * 0.25)),
    ("concat self", lambda x: S.Concat(x, S.relu(x), dim=1)),
    ("concat last", lambda x: S.Concat(x, x * 2, dim=-1)),
    ("stack", lambda x: S.stack(x, S.tanh(x), axis=1)),
    ("add_n", lambda x: S.add_n(x, S.relu(x), S.tanh(x))),
    ("residual", lambda x: x + S.Activation(S.BatchNorm(x, fix_gamma=False), act_type="relu")),
    ("argmax to embedding", lambda x: S.Embedding(S.argmax(x, axis=1), input_dim=16, output_dim=3)),
    ("cast argmax", lambda x: S.Cast(S.argmax(x, axis=1), dtype="int32")),
    ("cast int arithmetic", lambda x: S.Cast(S.Cast(x * 3, dtype="int32") + 1, dtype="float32")),
    ("batch_dot self", lambda x: S.batch_dot(x, x, transpose_b=True)),
    ("dot self", lambda x: S.dot(x, x, transpose_b=True)),
    ("linalg_gemm2", lambda x: S.linalg_gemm2(x, x, transpose_b=True)),
    ("linalg_gemm2 alpha", lambda x: S.linalg_gemm2(x, x, transpose_b=True, alpha=0.5)),
    ("split sum", lambda x: (lambda s: s[0] + s[1])(S.SliceChannel(x, num_outputs=2, axis=1))),
    ("split squeeze", lambda x: S.SliceChannel(x, num_outputs=4, axis=1, squeeze_axis=True)[1]),
    ("topk value", lambda x: S.topk(x, k=2, ret_typ="value", axis=1)),
    ("topk indices", lambda x: S.topk(x, k=2, axis=1)),
    ("slice_like", lambda x: S.slice_like(x, S.slice_axis(x, axis=1, begin=0, end=2), axes=(1,))),
    (
        "broadcast_like",
        lambda x: S.broadcast_like(S.mean(x, axis=1, keepdims=True), x) if hasattr(S, "broadcast_like") else S.nothing,
    ),
    ("depth_to_space", lambda x: S.depth_to_space(x, block_size=2)),
    ("space_to_depth", lambda x: S.space_to_depth(x, block_size=2)),
    ("BilinearResize2D", lambda x: S.contrib.BilinearResize2D(x, height=9, width=7)),
    ("AdaptiveAvgPooling2D", lambda x: S.contrib.AdaptiveAvgPooling2D(x, output_size=1)),
    ("SoftmaxOutput", lambda x: S.SoftmaxOutput(x, name="softmax")),
    ("SoftmaxOutput multi", lambda x: S.SoftmaxOutput(x, multi_output=True, name="softmax")),
    ("SoftmaxOutput preserve", lambda x: S.SoftmaxOutput(x, preserve_shape=True, name="softmax")),
    ("LogisticRegressionOutput", lambda x: S.LogisticRegressionOutput(x, name="logistic")),
    ("LinearRegressionOutput", lambda x: S.LinearRegressionOutput(x, name="linear")),
    ("square sum", lambda x: S.sum(S.square(x), axis=1, keepdims=True)),
    ("clip relu6 conv", lambda x: S.clip(S.Convolution(x, kernel=(1, 1), num_filter=4), 0, 6)),
):
    GRID.append(Layer(text, lambda x, shape, function=function: function(x)))
