"""TensorFlow and Keras programs with their truth: tensorflow_programs.py SET FOLDER COUNT SEED.

Correct programs that give the graphs of defects (integer division of every kind, equality by hand, one-hot by hand, paddings), and
layers with both values of the arguments that matter, at several opsets, static and with a dynamic batch; then random nets.
"""

import itertools
import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from recording import Recorder, drawn

OPSETS = (9, 10, 11, 13, 15, 17, 18)
X = [("float", (None, 6))]
PAIR = [("float", (None, 6)), ("float", (None, 6))]
ROUNDED = [("rounded", (None, 6)), ("rounded", (None, 6))]
INTS = [("int", (None, 6)), ("signed", (None, 6))]
IMAGE = [("float", (None, 8, 8, 4))]
SEQUENCE = [("float", (None, 6, 8))]
PROGRAMS = {}


def program(name, function, kinds):
    assert name not in PROGRAMS, name
    PROGRAMS[name] = (function, kinds)


for kinds_name, kinds in (
    ("i", INTS),
    ("n", [("natural", (None, 6)), ("natural", (None, 6))]),
    ("f", [("float", (None, 6)), ("positive", (None, 6))]),
):
    program(f"floordiv_{kinds_name}", lambda x, y: x // y, kinds)
    program(f"floordiv_named_{kinds_name}", lambda x, y: tf.math.floordiv(x, y, name="floordiv"), kinds)
    program(f"mod_{kinds_name}", lambda x, y: x % y, kinds)
    program(f"floormod_{kinds_name}", lambda x, y: tf.math.floormod(x, y, name="mod"), kinds)
    program(f"truncatediv_{kinds_name}", lambda x, y: tf.truncatediv(x, y), kinds)
    program(f"truncatediv_as_floordiv_{kinds_name}", lambda x, y: tf.truncatediv(x, y, name="floordiv_trunc"), kinds)
    program(f"truncatemod_{kinds_name}", lambda x, y: tf.truncatemod(x, y), kinds)
    program(f"remainder_by_hand_{kinds_name}", lambda x, y: x - tf.truncatediv(x, y) * y, kinds)
    program(
        f"remainder_by_hand_named_{kinds_name}", lambda x, y: tf.subtract(x, tf.truncatediv(x, y) * y, name="FloorMod"), kinds
    )
    program(f"floor_corrected_{kinds_name}", lambda x, y: tf.truncatediv(x - tf.math.floormod(x, y), y), kinds)
    program(f"div_by_scalar_{kinds_name}", lambda x, y: x // 3, kinds)
    program(f"true_div_{kinds_name}", lambda x, y: x / y, kinds)


def scoped(x, y):
    with tf.name_scope("floordiv"):
        return tf.truncatediv(x, y)


def scoped_mod(x, y):
    with tf.name_scope("floormod"):
        return x - tf.truncatediv(x, y, name="div") * y


program("scope_called_floordiv", scoped, INTS)
program("scope_called_floormod", scoped_mod, INTS)
program("equal_of_integer_parts", lambda x, y: tf.equal(tf.cast(x, tf.int32), tf.cast(y, tf.int32)), PAIR)
program("equal_of_integer_part_0", lambda x: tf.equal(tf.cast(x, tf.int32), 0), X)
program("not_equal_of_integer_parts", lambda x, y: tf.not_equal(tf.cast(x, tf.int32), tf.cast(y, tf.int32)), PAIR)
program("equal_named", lambda x, y: tf.equal(tf.cast(x, tf.int32, name="Equal"), tf.cast(y, tf.int32, name="Equal_1")), PAIR)
program("equal", lambda x, y: tf.equal(x, y), ROUNDED)
program("equal_0", lambda x: tf.equal(x, 0.0), [("rounded", (None, 6))])
program("not_equal", lambda x, y: tf.not_equal(x, y), ROUNDED)
program("equal_ints", lambda x, y: tf.equal(x, y), INTS)
program("where_equal", lambda x, y: tf.where(tf.cast(x, tf.int32) == 0, x, y), PAIR)
for k, (on, off, axis) in enumerate(((1.0, 0.0, -1), (2.0, -1.0, -1), (1.0, 0.0, 1), (1.0, 0.0, 0))):
    program(f"one_hot{k}", lambda i, on=on, off=off, axis=axis: tf.one_hot(i, 5, on, off, axis), [(5, (None, 3))])
    program(
        f"one_hot_from_end{k}",
        lambda i, on=on, off=off, axis=axis: tf.one_hot(tf.where(i < 0, i + 5, i), 5, on, off, axis),
        [(5, (None, 3))],
    )
    program(f"one_hot_argmax{k}", lambda x, on=on, off=off, axis=axis: tf.one_hot(tf.argmax(x, 1), 6, on, off, axis), X)
program("one_hot_by_hand", lambda i: tf.cast(tf.equal(i[:, :, None], tf.range(5)), tf.float32), [(5, (None, 3))])
for slope in (0.0, 0.01, 0.2, 1.0):
    program(f"leaky{slope}", lambda x, s=slope: tf.nn.leaky_relu(x, s), X)
for padding, kernel, stride in itertools.product(("SAME", "VALID"), (2, 3), (1, 2)):
    program(f"avg{padding}{kernel}{stride}", lambda x, p=padding, k=kernel, s=stride: tf.nn.avg_pool2d(x, k, s, p), IMAGE)
    program(f"max{padding}{kernel}{stride}", lambda x, p=padding, k=kernel, s=stride: tf.nn.max_pool2d(x, k, s, p), IMAGE)
for mode, sides in itertools.product(("CONSTANT", "REFLECT", "SYMMETRIC"), (([0, 0], [1, 2]), ([0, 0], [2, 2]))):
    program(f"pad_{mode}_{sides[1][0]}", lambda x, m=mode, s=sides: tf.pad(x, s, m), X)
program("pad_value", lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 3], [1, 0]], constant_values=1.5), IMAGE)
for method, size in itertools.product(("bilinear", "nearest", "bicubic", "area"), ((16, 16), (13, 11), (4, 4))):
    program(f"resize_{method}_{size[0]}", lambda x, m=method, s=size: tf.image.resize(x, s, m), IMAGE)
for align, half, size in itertools.product((False, True), (False, True), ((16, 16), (13, 11))):
    if not (align and half):
        program(
            f"raw_bilinear_{align}_{half}_{size[0]}",
            lambda x, a=align, h=half, s=size: tf.raw_ops.ResizeBilinear(
                images=x, size=s, align_corners=a, half_pixel_centers=h
            ),
            IMAGE,
        )
        program(
            f"raw_nearest_{align}_{half}_{size[0]}",
            lambda x, a=align, h=half, s=size: tf.raw_ops.ResizeNearestNeighbor(
                images=x, size=s, align_corners=a, half_pixel_centers=h
            ),
            IMAGE,
        )
for axis in (0, 1, -1):
    program(f"softmax{axis}", lambda x, a=axis: tf.nn.softmax(x, a), SEQUENCE)
    program(f"argmax{axis}", lambda x, a=axis: tf.argmax(x, a), SEQUENCE)
    program(f"argmax_float{axis}", lambda x, a=axis: tf.cast(tf.argmax(x, a), tf.float32), SEQUENCE)
    for keep in (False, True):
        for operator in ("sum", "mean", "max", "prod", "logsumexp", "euclidean_norm"):
            program(
                f"{operator}{axis}{keep}",
                lambda x, a=axis, k=keep, o=operator: getattr(tf.math, f"reduce_{o}")(x, a, k),
                SEQUENCE,
            )
program("sum_all", lambda x: tf.reduce_sum(x), SEQUENCE)
program("sum_int", lambda x: tf.reduce_sum(x, 1), [("int", (None, 6))])
program("any_all", lambda x: tf.stack([tf.reduce_any(x > 0, 1), tf.reduce_all(x > -9, 1)]), X)
program("cumsum", lambda x: tf.cumsum(x, 1), X)
program("cumsum_exclusive", lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True), X)
program("cumsum_by_matrix", lambda x: x @ tf.linalg.band_part(tf.ones([6, 6]), 0, -1), X)
program("gather_axis", lambda x, i: tf.gather(x, i, axis=1), [("float", (None, 6)), (6, (3,))])
program("gather_nd", lambda x, i: tf.gather_nd(x, i), [("float", (4, 6)), (4, (3, 1))])
program("gather_batch", lambda x, i: tf.gather(x, i, batch_dims=1), [("float", (3, 6)), (6, (3, 2))])
program("scatter_once", lambda x: tf.tensor_scatter_nd_update(x, [[0], [2]], tf.ones([2, 6])), [("float", (4, 6))])
program("scatter_add", lambda x: tf.tensor_scatter_nd_add(x, [[0], [2]], tf.ones([2, 6])), [("float", (4, 6))])
program("scatter_nd", lambda x: x + tf.scatter_nd([[0], [2]], tf.ones([2, 6]), [4, 6]), [("float", (4, 6))])
program("topk", lambda x: tf.math.top_k(x, 3), X)
program("sort_up", lambda x: tf.sort(x, 1), X)
program("sort_down", lambda x: tf.sort(x, 1, "DESCENDING"), X)
program("unique", lambda x: tf.unique(tf.reshape(x, [-1]))[0], [("int", (2, 6))])
program("clip", lambda x: tf.clip_by_value(x, -0.5, 0.5), X)
program("clip_int", lambda x: tf.clip_by_value(x, -3, 3), [("int", (None, 6))])
program("relu6", tf.nn.relu6, X)
program("strided", lambda x: x[:, 1:6:2, ::-1], SEQUENCE)
program("strided_new", lambda x: x[:, tf.newaxis, 2], SEQUENCE)
program("strided_mask", lambda x: x[..., -2:], SEQUENCE)
program("slice", lambda x: tf.slice(x, [0, 1], [-1, 3]), X)
program("transpose_there_and_back", lambda x: tf.transpose(tf.exp(tf.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]), IMAGE)
program("transpose_input", lambda x: tf.transpose(x, [0, 3, 1, 2]), IMAGE)
program("transpose_square", lambda x: tf.transpose(x, [0, 2, 1, 3]), [("float", (None, 8, 8, 8))])
program("reshape_dynamic", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), IMAGE)
program("shape_arithmetic", lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1] // 2, 2]), X)
program("tile", lambda x: tf.tile(x, [1, 3]), X)
program("split", lambda x: tf.split(x, [1, 2, 3], 1), X)
program("stack", lambda x, y: tf.stack([x, y], 1), PAIR)
program("einsum", lambda x, y: tf.einsum("bi,bj->bij", x, y), PAIR)
program("matmul_transposed", lambda x, y: tf.matmul(x, y, transpose_b=True), SEQUENCE * 2)
program("round", lambda x: tf.round(x * 2), X)
program("cast_trunc", lambda x: tf.cast(tf.cast(x * 3, tf.int32), tf.float32), X)
program("is_nan", lambda x: tf.math.is_nan(tf.math.log(x)), X)
program("batch_norm", lambda x: tf.nn.batch_normalization(x, 0.1, 2.0, 0.3, 1.5, 1e-3), IMAGE)
program("l2_normalize", lambda x: tf.math.l2_normalize(x, 1), X)
program("l2_normalize_by_hand", lambda x: x * tf.math.rsqrt(tf.reduce_sum(x * x, 1, keepdims=True) + 1e-3), X)
program("lrn", lambda x: tf.nn.local_response_normalization(x, 2, 1.0, 0.1, 0.5), IMAGE)
program("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), IMAGE)
program("space_to_batch", lambda x: tf.nn.space_to_depth(x, 2), IMAGE)
program("rsub", lambda x: 2.0 - x, X)
program("squared_difference", lambda x, y: tf.math.squared_difference(x, y), PAIR)
program("floor_division_floats", lambda x, y: tf.floor(x / y), [("float", (None, 6)), ("positive", (None, 6))])
program("reverse", lambda x: tf.reverse(x, [1]), X)
program("roll", lambda x: tf.roll(x, 2, 1), X)
program("invert", lambda x: tf.bitwise.invert(x), [("int", (None, 6))])
program("shift", lambda x: tf.bitwise.right_shift(x, 1), [("natural", (None, 6))])
program("erf_gelu", lambda x: 0.5 * x * (1 + tf.math.erf(x / 1.4142135)), X)
program("near_gelu", lambda x: 0.5 * x * (1 + tf.math.erf(x / 1.5)), X)
program("half", lambda x: tf.cast(tf.cast(x, tf.float16) * 2, tf.float32), X)
program("double", lambda x: tf.exp(x), [("float64", (None, 6))])

L = keras.layers
LAYERS = {}
for padding, kernel, stride in itertools.product(("same", "valid"), (2, 3), (1, 2)):
    LAYERS[f"conv{padding}{kernel}{stride}"] = (lambda p=padding, k=kernel, s=stride: L.Conv2D(5, k, s, p), IMAGE)
    LAYERS[f"deconv{padding}{kernel}{stride}"] = (lambda p=padding, k=kernel, s=stride: L.Conv2DTranspose(5, k, s, p), IMAGE)
    LAYERS[f"depthwise{padding}{kernel}{stride}"] = (lambda p=padding, k=kernel, s=stride: L.DepthwiseConv2D(k, s, p), IMAGE)
    LAYERS[f"avg{padding}{kernel}{stride}"] = (lambda p=padding, k=kernel, s=stride: L.AveragePooling2D(k, s, p), IMAGE)
for activation in "relu relu6 leaky_relu elu selu gelu silu hard_silu hard_sigmoid softplus softsign mish tanh softmax".split():
    LAYERS[f"act_{activation}"] = (lambda a=activation: L.Activation(a), X)
for axis, scale in itertools.product((-1, 1), (True, False)):
    LAYERS[f"bn{axis}{scale}"] = (lambda a=axis, s=scale: L.BatchNormalization(axis=a, scale=s), IMAGE)
    LAYERS[f"ln{axis}{scale}"] = (lambda a=axis, s=scale: L.LayerNormalization(axis=a, scale=s), SEQUENCE)
for cell, back, sequences in itertools.product((L.LSTM, L.GRU, L.SimpleRNN), (False, True), (False, True)):
    LAYERS[f"{cell.__name__}{back}{sequences}"] = (
        lambda c=cell, b=back, s=sequences: c(5, go_backwards=b, return_sequences=s),
        SEQUENCE,
    )
for name, make, kinds in (
    ("gru_before", lambda: L.GRU(5, reset_after=False), SEQUENCE),
    ("bidirectional", lambda: L.Bidirectional(L.LSTM(4)), SEQUENCE),
    ("leaky", lambda: L.LeakyReLU(0.01), X),
    ("prelu", lambda: L.PReLU(shared_axes=[1, 2]), IMAGE),
    ("prelu_all", lambda: L.PReLU(), IMAGE),
    ("relu_limits", lambda: L.ReLU(3.0, 0.1, 0.5), X),
    ("up_nearest", lambda: L.UpSampling2D(2), IMAGE),
    ("up_bilinear", lambda: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    ("zero_padding", lambda: L.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    ("cropping", lambda: L.Cropping2D(((1, 2), (0, 3))), IMAGE),
    ("dense3", lambda: L.Dense(4), SEQUENCE),
    ("flatten", lambda: L.Flatten(), IMAGE),
    ("global_average", lambda: L.GlobalAveragePooling2D(keepdims=True), IMAGE),
    ("separable", lambda: L.SeparableConv2D(4, 3), IMAGE),
    ("dilated", lambda: L.Conv2D(4, 3, dilation_rate=2), IMAGE),
    ("causal", lambda: L.Conv1D(4, 3, padding="causal"), SEQUENCE),
    ("unit", lambda: L.UnitNormalization(), X),
    ("group_norm", lambda: L.GroupNormalization(2), IMAGE),
    ("permute", lambda: L.Permute((3, 1, 2)), IMAGE),
    ("repeat", lambda: L.RepeatVector(3), X),
):
    LAYERS[name] = (make, kinds)


def net(rng):
    """A random chain of layers and its input."""
    name = rng.choice(["image", "sequence", "matrix"])
    kinds = {"image": IMAGE, "sequence": SEQUENCE, "matrix": X}[name]
    keras.utils.set_random_seed(rng.randrange(10**6))
    current = inputs = keras.Input([int(d) for d in kinds[0][1][1:]])
    names = sorted(LAYERS)
    note = []
    for _ in range(rng.randint(1, 5)):
        chosen = rng.choice(names)
        try:
            current = LAYERS[chosen][0]()(current)
        except Exception:
            continue
        note.append(chosen)
    if not note:
        raise ValueError("nothing fits")
    return keras.Model(inputs, current), kinds, " > ".join(note)


def record(recorder, name, function, kinds, opset, dynamic, seed, note=""):
    rng = np.random.RandomState(seed)
    batches = (2, 3) if dynamic else (2,)
    runs = [[drawn(kind, [n if d is None else d for d in shape], rng) for kind, shape in kinds] for n in batches]
    signature = [
        tf.TensorSpec([None if d is None and dynamic else 2 if d is None else d for d in shape], runs[0][k].dtype, f"x{k}")
        for k, (_, shape) in enumerate(kinds)
    ]

    def truth():
        found = []
        for run in runs:
            outputs = tf.nest.flatten(function(*map(tf.constant, run)))
            found.append(({f"x{k}": value for k, value in enumerate(run)}, [value.numpy() for value in outputs]))
        return found

    def export(path):
        wrapped = tf.function(lambda *inputs: function(*inputs))
        tf2onnx.convert.from_function(wrapped, input_signature=signature, opset=opset, output_path=str(path))

    recorder.add(name, export, truth, note)


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(root, group, "tensorflow")
    everything = {f"tf_{name}": both for name, both in PROGRAMS.items()}
    for k, (name, (make, kinds)) in enumerate(LAYERS.items()):
        keras.utils.set_random_seed(seed + k)
        layer = keras.Sequential([keras.Input([int(d) for d in kinds[0][1][1:]]), make()])
        everything[f"keras_{name}"] = (layer, kinds)
    for j, (name, (function, kinds)) in enumerate(everything.items()):
        for k, opset in enumerate(OPSETS):
            if name.startswith("keras_") and (j + k + seed) % 3:
                continue
            dynamic = (j + k) % 2 == 1 and any(None in shape for _, shape in kinds)
            record(recorder, f"{name}_{opset}{'d' if dynamic else 's'}", function, kinds, opset, dynamic, seed + j)
        keras.backend.clear_session()
    print(group, "programs:", recorder.written, flush=True)
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        try:
            model, kinds, note = net(rng)
        except Exception:
            continue
        record(recorder, f"net{seed}_{k:05}", model, kinds, rng.choice(OPSETS), rng.random() < 0.5, k, note)
        keras.backend.clear_session()
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()
