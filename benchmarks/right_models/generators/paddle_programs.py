"""Paddle programs with their truth: paddle_programs.py SET FOLDER COUNT SEED.

Layers with both values of the arguments that paddle2onnx misreads, correct programs that look like its defects, at several opsets,
static and with a dynamic batch; then random nets of layers.
"""

import itertools
import random
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from recording import Recorder, drawn

OPSETS = (9, 11, 13, 15, 16)
X = [("float", (None, 6))]
PAIR = [("float", (None, 6)), ("float", (None, 6))]
INTS = [("int", (None, 6)), ("natural", (None, 6))]
IMAGE = [("float", (None, 4, 8, 8))]
SEQUENCE = [("float", (None, 6, 8))]
PROGRAMS = {}


def program(name, function, kinds):
    assert name not in PROGRAMS, name
    PROGRAMS[name] = (function, kinds)


for slope in (0.0, 0.005, 0.01, 0.02, 0.1, 0.2, 0.99, 1.0, 1.5, -0.1):
    program(f"leaky{slope}", lambda x, s=slope: F.leaky_relu(x, s), X)
for kernel, stride, padding, ceil, exclusive in itertools.product(
    (2, 3), (1, 2), (0, 1, "VALID", "SAME"), (False, True), (False, True)
):
    name = f"avg{kernel}{stride}{padding}{'c' if ceil else ''}{'x' if exclusive else 'i'}"
    program(name, lambda x, k=kernel, s=stride, p=padding, c=ceil, e=exclusive: F.avg_pool2d(x, k, s, p, c, e), IMAGE)
    if exclusive:
        program(
            f"max{kernel}{stride}{padding}{'c' if ceil else ''}",
            lambda x, k=kernel, s=stride, p=padding, c=ceil: F.max_pool2d(x, k, s, p, ceil_mode=c),
            IMAGE,
        )
for k, (kernel, stride) in enumerate(
    (((3, 3), (1, 2)), ((2, 1), (1, 1)), ((2, 3), (2, 1)), ((4, 2), (2, 2)), ((8, 3), (8, 2)))
):
    for padding in ("VALID", 0):
        program(
            f"uneven{k}{padding}",
            lambda x, k=kernel, s=stride, p=padding: F.avg_pool2d(x, k, s, p),
            [("float", (None, 4, 8, 7))],
        )
for size in (1, 2, 3, 4, 5, 8, (3, 4)):
    program(f"adaptive_avg{size}", lambda x, s=size: F.adaptive_avg_pool2d(x, s), IMAGE)
    program(f"adaptive_max{size}", lambda x, s=size: F.adaptive_max_pool2d(x, s), IMAGE)
for axis, keep in itertools.product((0, 1, -1, None), (False, True)):
    for operator in ("sum", "mean", "max", "prod", "logsumexp", "norm"):
        program(
            f"{operator}{axis}{keep}", lambda x, a=axis, k=keep, o=operator: getattr(paddle, o)(x, axis=a, keepdim=k), SEQUENCE
        )
    program(f"argmax{axis}{keep}", lambda x, a=axis, k=keep: paddle.argmax(x, a, k), SEQUENCE)
for p in (0, 1, 2, 3, float("inf"), float("-inf")):
    program(f"norm_p{p}", lambda x, p=p: paddle.norm(x, p, axis=1), SEQUENCE)
    program(f"norm_all_p{p}", lambda x, p=p: paddle.norm(x, p), SEQUENCE)
    program(f"power_by_hand{p}", lambda x, p=p: paddle.sum(paddle.abs(x) ** max(1.0, min(p, 4.0)), axis=1), SEQUENCE)
for axis in (0, 1, -1):
    program(f"softmax{axis}", lambda x, a=axis: F.softmax(x, a), SEQUENCE)
    program(f"log_softmax{axis}", lambda x, a=axis: F.log_softmax(x, a), SEQUENCE)
    program(f"cumsum{axis}", lambda x, a=axis: paddle.cumsum(x, a), SEQUENCE)
program("dot", lambda x, y: paddle.dot(x, y), PAIR)
program("dot_kept", lambda x, y: paddle.sum(x * y, -1, keepdim=True), PAIR)
program("dot_vectors", lambda x, y: paddle.dot(x, y), [("float", (6,)), ("float", (6,))])
program("sum_everything", lambda x: paddle.sum(x), SEQUENCE)
program("sum_to_one", lambda x: paddle.sum(x).reshape([1]), SEQUENCE)
program("sum_power", lambda x: paddle.sum(x) ** 2, SEQUENCE)
program("layer_norm", lambda x: F.layer_norm(x, [8]), SEQUENCE)
program("layer_norm_two", lambda x: F.layer_norm(x, [6, 8]), SEQUENCE)
for mode, align, size in itertools.product(("nearest", "bilinear", "bicubic"), (False, True), ((16, 16), (13, 11), (4, 4))):
    if not (mode == "nearest" and align):
        program(
            f"resize_{mode}_{align}_{size[0]}",
            lambda x, m=mode, a=align, s=size: F.interpolate(x, s, mode=m, align_corners=a),
            IMAGE,
        )
program("resize_align_mode", lambda x: F.interpolate(x, (13, 11), mode="bilinear", align_mode=1), IMAGE)
for mode in ("constant", "reflect", "replicate"):
    program(f"pad_{mode}", lambda x, m=mode: F.pad(x, [1, 2, 3, 0], m), IMAGE)
program("pad_value", lambda x: F.pad(x, [1, 0, 2, 3], value=1.5), IMAGE)
program("floordiv", lambda x, y: x // y, INTS)
program("floordiv_float", lambda x, y: paddle.floor(x / y), [("float", (None, 6)), ("positive", (None, 6))])
program("mod", lambda x, y: paddle.mod(x, y), INTS)
program("log2", lambda x: paddle.log2(x + 3), X)
program("log10", lambda x: paddle.log10(x + 3), X)
program("log_by_hand", lambda x: paddle.log(x + 3) / 2, X)
program("log1p", lambda x: paddle.log1p(paddle.abs(x)), X)
program("one_hot", lambda x: F.one_hot(x, 5), [(5, (None, 3))])
program("gather", lambda x, i: paddle.gather(x, i, 1), [("float", (None, 6)), (6, (3,))])
program("index_select", lambda x, i: paddle.index_select(x, i, 1), [("float", (None, 6)), (6, (3,))])
program("scatter_over", lambda x, i, v: paddle.scatter(x, i, v), [("float", (4, 6)), (4, (1,)), ("float", (1, 6))])
program("put_along", lambda x: paddle.put_along_axis(x, paddle.to_tensor([[0], [1]]), 1.0, 1), [("float", (2, 6))])
program("where", lambda x, y: paddle.where(x > 0, x, y), PAIR)
program("masked", lambda x: paddle.where(x > 0.5, x, paddle.full_like(x, -1e9)), X)
program("topk", lambda x: paddle.topk(x, 3, 1), X)
program("sort", lambda x: paddle.sort(x, 1), X)
program("sort_down", lambda x: paddle.sort(x, 1, descending=True), X)
program("clip", lambda x: paddle.clip(x, -0.5, 0.5), X)
program("clip_int", lambda x: paddle.clip(x, -3, 3), [("int", (None, 6))])
program("cast_trunc", lambda x: (x * 3).astype("int32").astype("float32"), X)
program("equal", lambda x, y: x.round() == y.round(), PAIR)
program("scale", lambda x: paddle.scale(x, 2.0, 1.0), X)
program("scale_before", lambda x: paddle.scale(x, 2.0, 1.0, bias_after_scale=False), X)
program("transpose", lambda x: paddle.transpose(x, [0, 2, 3, 1]), IMAGE)
program("reshape", lambda x: paddle.reshape(x, [0, -1]), IMAGE)
program("flatten", lambda x: paddle.flatten(x, 1), IMAGE)
program("squeeze", lambda x: paddle.squeeze(x[:, :1], 1), SEQUENCE)
program("tile", lambda x: paddle.tile(x, [1, 2]), X)
program("expand", lambda x: paddle.expand(x.unsqueeze(1), [-1, 3, -1]), X)
program("split", lambda x: paddle.split(x, [1, 2, 3], 1), X)
program("slice", lambda x: x[:, 1:5:2], X)
program("roll", lambda x: paddle.roll(x, 2, 1), X)
program("flip", lambda x: paddle.flip(x, 1), X)
program("triu", lambda x: paddle.triu(x, 1), SEQUENCE)
program("matmul", lambda x, y: paddle.matmul(x, y, transpose_y=True), SEQUENCE * 2)
program("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGE)
program("grid", lambda x, g: F.grid_sample(x, paddle.clip(g, -0.9, 0.9)), [*IMAGE, ("float", (None, 5, 5, 2))])
for activation in "relu relu6 sigmoid tanh gelu silu swish hardswish hardsigmoid hardtanh elu selu celu softplus softsign mish tanhshrink log_sigmoid".split():
    program(f"act_{activation}", getattr(F, activation), X)
program("gelu_tanh", lambda x: F.gelu(x, approximate=True), X)
program("near_gelu", lambda x: 0.5 * x * (1 + paddle.erf(x / 1.5)), X)
program("dropout", lambda x: F.dropout(x, 0.5, training=False), X)
program("dropout_scaled", lambda x: F.dropout(x, 0.5, training=False, mode="downscale_in_infer"), X)
program("normalize", lambda x: F.normalize(x, axis=1), X)

LAYERS = {
    "conv": (lambda r: nn.Conv2D(4, 4, r.choice([1, 3]), r.choice([1, 2]), r.choice([0, 1, "SAME"])), 4),
    "deconv": (lambda r: nn.Conv2DTranspose(4, 4, 3, 2, 1, output_padding=r.choice([0, 1])), 4),
    "depthwise": (lambda r: nn.Conv2D(4, 4, 3, padding=1, groups=4, bias_attr=False), 4),
    "bn": (lambda r: nn.BatchNorm2D(4), 4),
    "gn": (lambda r: nn.GroupNorm(2, 4), 4),
    "in": (lambda r: nn.InstanceNorm2D(4), 4),
    "prelu": (lambda r: nn.PReLU(r.choice([1, 4])), 4),
    "max": (lambda r: nn.MaxPool2D(r.choice([2, 3]), r.choice([1, 2]), r.choice([0, 1]), ceil_mode=r.random() < 0.5), 4),
    "avg": (
        lambda r: nn.AvgPool2D(
            r.choice([2, 3]), r.choice([1, 2]), r.choice([0, 1]), ceil_mode=r.random() < 0.5, exclusive=r.random() < 0.5
        ),
        4,
    ),
    "adaptive": (lambda r: nn.AdaptiveAvgPool2D(r.choice([1, 2, 3])), 4),
    "up": (lambda r: nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear"])), 4),
    "flatten": (lambda r: nn.Flatten(), 4),
    "linear": (lambda r: nn.Linear(8, r.choice([4, 8])), 3),
    "ln": (lambda r: nn.LayerNorm(8), 3),
    "leaky": (lambda r: nn.LeakyReLU(r.choice([0.01, 0.2])), 0),
    "relu": (lambda r: nn.ReLU(), 0),
    "hardswish": (lambda r: nn.Hardswish(), 0),
    "gelu": (lambda r: nn.GELU(), 0),
    "sigmoid": (lambda r: nn.Sigmoid(), 0),
    "softmax": (lambda r: nn.Softmax(r.choice([1, -1])), 0),
    "dropout": (lambda r: nn.Dropout(0.3), 0),
}
ALONE = {
    "lstm": (lambda: nn.LSTM(8, 5), SEQUENCE),
    "gru": (lambda: nn.GRU(8, 5, direction="bidirect"), SEQUENCE),
    "embedding": (lambda: nn.Embedding(6, 4), [(6, (None, 3))]),
    "ln2": (lambda: nn.LayerNorm([6, 8]), SEQUENCE),
    "attention": (lambda: nn.MultiHeadAttention(8, 2), SEQUENCE),
    "bilinear": (lambda: nn.Bilinear(6, 6, 3), PAIR),
    "prelu_square": (lambda: nn.PReLU(8), [("float", (None, 8, 8, 8))]),
}


class One(nn.Layer):
    """A function of one tensor as a layer; Paddle wants to see the operands in the signature."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Two(One):
    def forward(self, x, y):
        return self.function(x, y)


class Three(One):
    def forward(self, x, y, z):
        return self.function(x, y, z)


def net(rng):
    """A random chain of layers and its input."""
    kinds, layers, note = rng.choice([IMAGE, SEQUENCE]), [], []
    current = paddle.zeros([2 if d is None else d for d in kinds[0][1]])
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(sorted(LAYERS))
        make, rank = LAYERS[name]
        if rank not in (0, len(current.shape)):
            continue
        try:
            layer = make(rng)
            layer.eval()
            current = layer(current)
        except Exception:
            continue
        layers.append(layer)
        note.append(name)
    if not layers:
        raise ValueError("nothing fits")
    return nn.Sequential(*layers), kinds, " > ".join(note)


def record(recorder, name, layer, kinds, opset, dynamic, seed, note=""):
    rng = np.random.RandomState(seed)
    layer.eval()
    batches = (2, 3) if dynamic else (2,)
    cast = {"int32": "int64"}
    runs = [[drawn(kind, [n if d is None else d for d in shape], rng) for kind, shape in kinds] for n in batches]
    runs = [[value.astype(cast.get(str(value.dtype), value.dtype)) for value in run] for run in runs]
    specs = [
        paddle.static.InputSpec(
            [None if d is None and dynamic else 2 if d is None else d for d in shape], str(runs[0][k].dtype), f"x{k}"
        )
        for k, (_, shape) in enumerate(kinds)
    ]

    def truth():
        found = []
        with paddle.no_grad():
            for run in runs:
                outputs = paddle.utils.flatten(layer(*map(paddle.to_tensor, run)))
                found.append(({f"x{k}": value for k, value in enumerate(run)}, [value.numpy() for value in outputs]))
        return found

    recorder.add(
        name,
        lambda path: paddle.onnx.export(layer, str(path)[: -len(".onnx")], input_spec=specs, opset_version=opset),
        truth,
        note,
    )


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(root, group, "paddle")
    paddle.seed(seed)
    everything = {name: ((One, Two, Three)[len(kinds) - 1](function), kinds) for name, (function, kinds) in PROGRAMS.items()}
    everything.update({f"layer_{name}": (make(), kinds) for name, (make, kinds) in ALONE.items()})
    for j, (name, (layer, kinds)) in enumerate(everything.items()):
        for k, opset in enumerate(OPSETS):
            if (j + k + seed) % 2 and opset not in (11, 13):
                continue
            dynamic = (j + k) % 2 == 1 and any(None in shape for _, shape in kinds)
            record(recorder, f"{name}_{opset}{'d' if dynamic else 's'}", layer, kinds, opset, dynamic, seed + j)
    print(group, "programs:", recorder.written, flush=True)
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        paddle.seed(seed * 1000 + k)
        try:
            layer, kinds, note = net(rng)
        except ValueError:
            continue
        record(recorder, f"net{seed}_{k:05}", layer, kinds, rng.choice(OPSETS), rng.random() < 0.5, k, note)
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()
