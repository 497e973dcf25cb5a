"""JAX programs with their truth: jax_programs.py SET FOLDER COUNT SEED.

Correct programs that look like defects of jax2onnx and of other exporters, at several opsets; then random chains of them.
"""

import itertools
import random
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx import to_onnx
from recording import Recorder, drawn

OPSETS = (17, 18, 21, 23)
X = [("float", (2, 6))]
PAIR = [("float", (2, 6)), ("float", (2, 6))]
INTS = [("int", (2, 6)), ("natural", (2, 6))]
SEQUENCE = [("float", (2, 6, 8))]
IMAGE = [("float", (2, 8, 8, 4))]
PROGRAMS = {}


def program(name, function, kinds):
    assert name not in PROGRAMS, name
    PROGRAMS[name] = (function, kinds)


for name, kinds in (("i", INTS), ("f", [("float", (2, 6)), ("positive", (2, 6))])):
    program(f"floordiv_{name}", lambda x, y: x // y, kinds)
    program(f"mod_{name}", lambda x, y: x % y, kinds)
    program(f"fmod_{name}", lambda x, y: jnp.fmod(x, y), kinds)
    program(f"true_div_{name}", lambda x, y: x / y, kinds)
    program(f"lax_div_{name}", lambda x, y: lax.div(x, y), kinds)
    program(f"lax_rem_{name}", lambda x, y: lax.rem(x, y), kinds)
    program(f"remainder_by_hand_{name}", lambda x, y: x - lax.div(x, y) * y, kinds)
for axis in (0, 1, -1):
    for operator in ("softmax", "log_softmax", "logsumexp", "standardize"):
        program(f"{operator}{axis}", lambda x, a=axis, o=operator: getattr(jax.nn, o)(x, axis=a), SEQUENCE)
    for operator, keep in itertools.product(("sum", "mean", "max", "min", "prod", "var", "std"), (False, True)):
        program(
            f"{operator}{axis}{keep}", lambda x, a=axis, k=keep, o=operator: getattr(jnp, o)(x, axis=a, keepdims=k), SEQUENCE
        )
    for operator in ("argmax", "argmin", "cumsum", "sort", "argsort", "flip"):
        program(f"{operator}{axis}", lambda x, a=axis, o=operator: getattr(jnp, o)(x, axis=a), SEQUENCE)
    program(f"one_hot{axis}", lambda i, a=axis: jax.nn.one_hot(i, 5, axis=a), [(5, (2, 3))])
program("one_hot_from_end", lambda i: jax.nn.one_hot(jnp.where(i < 0, i + 5, i), 5), [("signed", (2, 3))])
program("one_hot_by_hand", lambda i: (i[..., None] == jnp.arange(5)).astype(jnp.float32), [(5, (2, 3))])
for slope in (0.0, 0.01, 0.2, 1.0):
    program(f"leaky{slope}", lambda x, s=slope: jax.nn.leaky_relu(x, s), X)
for activation in "relu relu6 sigmoid silu elu selu celu gelu softplus soft_sign hard_tanh hard_sigmoid hard_swish log_sigmoid mish squareplus glu".split():
    program(f"act_{activation}", getattr(jax.nn, activation), X)
program("gelu_exact", lambda x: jax.nn.gelu(x, approximate=False), X)
program("gelu_near", lambda x: 0.5 * x * (1 + lax.erf(x / 1.5)), X)
for operator in "abs exp log1p expm1 sin cos tanh floor ceil round trunc sign sqrt square negative reciprocal cbrt isnan isinf isfinite".split():
    program(
        f"fn_{operator}", lambda x, o=operator: getattr(jnp, o)(jnp.abs(x) + 0.1 if o in ("sqrt", "cbrt", "log1p") else x), X
    )
for operator in "add subtract multiply divide maximum minimum power equal not_equal greater less_equal logical_and logical_or arctan2".split():
    program(f"two_{operator}", lambda x, y, o=operator: getattr(jnp, o)(jnp.abs(x) + 0.1 if o == "power" else x, y), PAIR)
program("set_once", lambda x: x + jnp.zeros_like(x).at[:, 1].set(1.0), X)
program("set_rows", lambda x: x + jnp.zeros_like(x).at[jnp.array([0, 1])].set(2.0), X)
program("set_twice", lambda x: x + jnp.zeros_like(x).at[jnp.array([0, 0])].set(2.0), X)
program("add_once", lambda x: x.at[jnp.array([0, 1])].add(1.0), X)
program(
    "scatter_ids", lambda x, i: x + jnp.zeros_like(x).at[jnp.arange(2)[:, None], i].set(1.0), [("float", (2, 6)), (6, (2, 3))]
)
program("take", lambda x, i: jnp.take(x, i, axis=1), [("float", (2, 6)), (6, (3,))])
program("take_along", lambda x, i: jnp.take_along_axis(x, i, axis=1), [("float", (2, 6)), (6, (2, 3))])
program("gather_rows", lambda x, i: x[i], [("float", (4, 6)), (4, (3,))])
program("where", lambda x, y: jnp.where(x > 0, x, y), PAIR)
program("masked", lambda x: jnp.where(x > 0.5, x, -1e9), X)
program("clip", lambda x: jnp.clip(x, -0.5, 0.5), X)
program("clip_int", lambda x: jnp.clip(x, -3, 3), [("int", (2, 6))])
program("topk", lambda x: lax.top_k(x, 3), X)
program("cast_trunc", lambda x: (x * 3).astype(jnp.int32).astype(jnp.float32), X)
program("equal_of_integer_parts", lambda x, y: x.astype(jnp.int32) == y.astype(jnp.int32), PAIR)
program("shift", lambda x: x >> 1, [("natural", (2, 6))])
program("shift_signed", lambda x: x >> 1, [("int", (2, 6))])
for mode in ("constant", "reflect", "symmetric"):
    program(f"pad_{mode}", lambda x, m=mode: jnp.pad(x, ((0, 0), (1, 2)), mode=m), X)
program("pad_value", lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=1.5), X)
for method, size in itertools.product(("bilinear", "nearest", "bicubic"), ((2, 16, 16, 4), (2, 4, 4, 4))):
    program(f"resize_{method}_{size[1]}", lambda x, m=method, s=size: jax.image.resize(x, s, m), IMAGE)
for padding, stride in itertools.product(("SAME", "VALID"), (1, 2)):
    window, strides = (1, 3, 3, 1), (1, stride, stride, 1)
    program(
        f"max_pool{padding}{stride}",
        lambda x, p=padding, w=window, s=strides: lax.reduce_window(x, -jnp.inf, lax.max, w, s, p),
        IMAGE,
    )
    program(
        f"sum_pool{padding}{stride}",
        lambda x, p=padding, w=window, s=strides: lax.reduce_window(x, 0.0, lax.add, w, s, p),
        IMAGE,
    )
    kernel = np.random.RandomState(0).uniform(-1, 1, (3, 3, 4, 5)).astype("float32")
    program(
        f"conv{padding}{stride}",
        lambda x, p=padding, s=stride, k=kernel: lax.conv_general_dilated(
            x, k, (s, s), p, dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        IMAGE,
    )
program("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5), SEQUENCE)
program(
    "layer_norm_far",
    lambda x: (x + 300 - (x + 300).mean(-1, keepdims=True)) / jnp.sqrt((x + 300).var(-1, keepdims=True) + 1e-5),
    SEQUENCE,
)
program("rms_norm", lambda x: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6), SEQUENCE)
program("attention", lambda x: jax.nn.softmax(x @ x.transpose(0, 2, 1) / 3) @ x, SEQUENCE)
program("einsum", lambda x, y: jnp.einsum("bi,bj->bij", x, y), PAIR)
program("dot_general", lambda x, y: lax.dot_general(x, y, (((2,), (2,)), ((0,), (0,)))), SEQUENCE * 2)
program("reshape", lambda x: x.reshape(2, -1), SEQUENCE)
program("transpose", lambda x: x.transpose(0, 2, 1), SEQUENCE)
program("there_and_back", lambda x: jnp.exp(x.transpose(0, 2, 1)).transpose(0, 2, 1), SEQUENCE)
program("concatenate", lambda x, y: jnp.concatenate([x, y], 1), PAIR)
program("stack", lambda x, y: jnp.stack([x, y], 1), PAIR)
program("split", lambda x: jnp.split(x, 3, 1), X)
program("tile", lambda x: jnp.tile(x, (1, 2)), X)
program("roll", lambda x: jnp.roll(x, 2, 1), X)
program("triu", lambda x: jnp.triu(x[0], 1), SEQUENCE)
program("slice", lambda x: x[:, 1:5:2], X)
program("rsub", lambda x: 2.0 - x, X)

CHAIN = [name for name, (_, kinds) in PROGRAMS.items() if len(kinds) == 1 and kinds[0][0] == "float"]


def net(rng):
    """A random chain of functions of one operand."""
    kinds, functions, note = rng.choice([X, SEQUENCE, IMAGE]), [], []
    current = jnp.zeros(kinds[0][1])
    for _ in range(rng.randint(2, 6)):
        name = rng.choice(CHAIN)
        try:
            following = PROGRAMS[name][0](current)
        except Exception:
            continue
        if not hasattr(following, "ndim") or following.ndim == 0 or following.size > 20000 or following.dtype != jnp.float32:
            continue
        current = following
        functions.append(PROGRAMS[name][0])
        note.append(name)

    def chain(x):
        for function in functions:
            x = function(x)
        return x

    if not functions:
        raise ValueError("nothing fits")
    return chain, kinds, " > ".join(note)


def record(recorder, name, function, kinds, opset, seed, note=""):
    rng = np.random.RandomState(seed)
    run = [drawn(kind, shape, rng) for kind, shape in kinds]

    def truth():
        outputs = jax.tree_util.tree_leaves(function(*map(jnp.asarray, run)))
        return [({f"x{k}": value for k, value in enumerate(run)}, [np.asarray(value) for value in outputs])]

    def export(path):
        model = to_onnx(
            function, [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in run], opset=opset, model_name="net"
        )
        path.write_bytes(model.SerializeToString())

    recorder.add(name, export, truth, note)


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(root, group, "jax")
    for j, (name, (function, kinds)) in enumerate(PROGRAMS.items()):
        for opset in OPSETS:
            record(recorder, f"{name}_{opset}", function, kinds, opset, seed + j)
    print(group, "programs:", recorder.written, flush=True)
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        try:
            function, kinds, note = net(rng)
        except ValueError:
            continue
        record(recorder, f"net{seed}_{k:05}", function, kinds, rng.choice(OPSETS), k, note)
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()
