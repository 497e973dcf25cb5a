"""MXNet nets with their truth: mxnet_nets.py SET FOLDER COUNT SEED, in an environment with an MXNet from 1.3 to 1.9.

First each layer of `mxnet_layers.GRID` alone, with both values of every argument that an exporter drops, then random nets of one
to six of them. The symbol file is saved beside each model. Runs on Python 3.6.
"""

import json
import os
import random
import sys
import traceback

import mxnet as mx
import numpy as np
from mxnet_cases import named_cases
from mxnet_layers import GRID

try:
    from mxnet.onnx import export_model  # 1.9
except ImportError:
    from mxnet.contrib.onnx import export_model

CRASHED = set()
SHAPES = [
    (2, 4, 9, 9),
    (1, 3, 8, 8),
    (2, 5, 7, 6),
    (2, 4),
    (3, 6),
    (2, 4, 8),
    (1, 4, 4, 5, 5),
    (2, 3, 4, 4),
    (4, 2, 4),
    (2, 4, 4, 4),
]


def parameters(symbol, shapes, seed):
    """Random weights and running statistics; a variance is positive. Half of the scales are 1, as fix_gamma has them."""
    rng = np.random.RandomState(seed)
    arguments, _, states = symbol.infer_shape(**shapes)
    known = list(zip(symbol.list_arguments(), arguments)) + list(zip(symbol.list_auxiliary_states(), states))
    values = {}
    for name, shape in known:
        if name in shapes:
            continue
        value = rng.uniform(0.5, 1.5, shape) if name.endswith(("var", "gamma")) else rng.uniform(-0.5, 0.5, shape)
        if name.endswith("gamma") and rng.rand() < 0.5:
            value = np.ones(shape)
        values[name] = mx.nd.array(value)
    return values


def inputs_of(shapes, kinds, seed):
    rng = np.random.RandomState(seed)
    made = {}
    for name in shapes:
        kind = kinds.get(name, "float")
        if kind == "index":
            made[name] = rng.randint(0, 3, shapes[name]).astype("float32")
        elif kind == "length":
            made[name] = rng.randint(1, 4, shapes[name]).astype("float32")
        elif kind == "truth":
            made[name] = rng.randint(0, 2, shapes[name]).astype("float32")
        elif kind == "positive":
            made[name] = rng.uniform(0.5, 2, shapes[name]).astype("float32")
        else:
            made[name] = rng.uniform(-2, 2, shapes[name]).astype("float32")
    return made


def truth(symbol, values, fed):
    """What MXNet computes in inference."""
    arguments = {name: mx.nd.array(value) for name, value in fed.items()}
    arguments.update({name: values[name] for name in symbol.list_arguments() if name in values})
    states = {name: values[name] for name in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    return [output.asnumpy() for output in executor.forward(is_train=False)]


def write(folder, name, symbol, shapes, kinds, seed, note):
    """Exports one net and records it; False where MXNet or its exporter refuses it."""
    place = os.path.join(folder, name)
    if os.path.exists(os.path.join(place, "meta.json")):
        return True
    values = parameters(symbol, shapes, seed)
    fed = inputs_of(shapes, kinds, seed + 1)
    outputs = truth(symbol, values, fed)
    os.makedirs(place, exist_ok=True)
    model = os.path.join(place, "model.onnx")
    params = {("aux:" if key in symbol.list_auxiliary_states() else "arg:") + key: value for key, value in values.items()}
    if mx.__version__ < "1.9":
        params = values
    order = [key for key in symbol.list_arguments() if key in shapes]
    try:
        export_model(symbol, params, [shapes[key] for key in order], np.float32, model)
    finally:
        if not os.path.exists(model):
            os.rmdir(place)
    symbol.save(os.path.join(place, "symbol.json"))
    data = {"in_" + key: fed[key] for key in order}
    data.update({"out_%d" % k: value for k, value in enumerate(outputs)})
    np.savez(os.path.join(place, "data.npz"), **data)
    with open(os.path.join(place, "meta.json"), "w") as file:
        json.dump(
            {"name": name, "family": "mxnet", "baseline": "ok", "exporter_version": "mxnet " + mx.__version__, "note": note},
            file,
        )
    return True


def attempt(folder, name, build, seed, note=""):
    """One net, built anew. What MXNet or the exporter refuses is passed over, and what crashed the process before."""
    if name in CRASHED:
        return False
    with open(os.path.join(folder, "attempt.txt"), "w") as file:
        file.write(name)
    try:
        with mx.name.NameManager():
            symbol, shapes, kinds = build()
            return write(folder, name, symbol, shapes, kinds, seed, note)
    except Exception as error:
        if os.environ.get("FARM_DEBUG"):
            print(name, note, type(error).__name__, str(error).split("\n")[0][:160])
            if os.environ["FARM_DEBUG"] == "2":
                traceback.print_exc()
        return False


def net(rng):
    """A random chain: symbol, shapes, kinds and what it is of; layers that do not fit the shape are passed over."""
    shape = rng.choice(SHAPES)
    symbol, note = mx.sym.Variable("data"), []
    wanted, heads = rng.randint(1, 6), []
    named = rng.random() < 0.3
    for k in range(40):
        if len(note) == wanted:
            break
        layer = rng.choice(GRID)
        try:
            current = symbol.infer_shape(data=shape)[1][0]
            if len(current) == 0 or 0 in current:
                break
            with mx.name.Prefix("net%d_" % k) if named else _Nothing():
                following = layer.build(symbol, current)
            result = following.infer_shape(data=shape)[1][0]
            if not result or np.prod(result) > 20000 or np.prod(result) == 0:
                continue
        except Exception:
            continue
        if rng.random() < 0.15:
            heads.append(symbol)
        symbol = following
        note.append(layer.text)
    if heads and note:
        group = [one for one in heads[:2] if one.name != "data"] + [symbol]
        rng.shuffle(group)
        symbol = mx.sym.Group(group) if len(group) > 1 else symbol
    if not note:
        raise ValueError("nothing fits")
    return symbol, {"data": shape}, " > ".join(note)


class _Nothing(object):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def remember_crash(folder):
    """A process that ended in the middle left the name of the net: it is not tried again."""
    attempt, known = (os.path.join(folder, name) for name in ("attempt.txt", "crashed.txt"))
    if os.path.exists(attempt):
        with open(attempt) as source, open(known, "a") as target:
            target.write(source.read() + "\n")
        os.remove(attempt)
    if os.path.exists(known):
        with open(known) as file:
            CRASHED.update(file.read().split())


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    folder = os.path.join(root, group)
    os.makedirs(folder, exist_ok=True)
    remember_crash(folder)
    written = 0
    for k, layer in enumerate(GRID):
        for j, shape in enumerate(SHAPES):
            if layer.rank and len(shape) not in layer.rank:
                continue
            if j >= 3 and (k + j + seed) % 3:
                continue

            def build(layer=layer, shape=shape):
                return layer.build(mx.sym.Variable("data"), shape), {"data": shape}, {}

            written += attempt(folder, "layer%04d_%d" % (k, j), build, seed + k, layer.text)
    for name, build in named_cases():
        written += attempt(folder, name, build, seed + len(name), name)
    print(group, "layers and cases:", written, flush=True)
    for k in range(count):
        rng = random.Random("%d %d" % (seed, k))
        note = []

        def build(rng=rng, note=note):
            symbol, shapes, text = net(rng)
            note.append(text)
            return symbol, shapes, {}

        done = attempt(folder, "net%d_%05d" % (seed, k), build, seed + k, note)
        written += done
    os.remove(os.path.join(folder, "attempt.txt"))
    print(group, "models:", written, flush=True)


if __name__ == "__main__":
    main()
