"""PyTorch modules with their truth: torch_modules.py SET FOLDER COUNT SEED, in an environment with torch and onnx.

Each program of `torch_programs` by the TorchScript exporter at several opsets, static and with a dynamic batch, and by the dynamo
exporter; then random nets of small layers. Each is run on two batch sizes where the export has a dynamic one.
"""

import random
import sys
import warnings

import numpy as np
import torch
from recording import Recorder
from torch_blocks import BLOCKS
from torch_programs import PROGRAMS

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

STATIC = (9, 10, 11, 13, 15, 16, 17, 18, 20)
DYNAMIC = (11, 16, 17, 20)


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        if isinstance(function, torch.nn.Module):
            self.inner = function

    def forward(self, *inputs):
        return self.function(*inputs)


def inputs_of(kinds, batch, seed):
    """Tensors as `kinds` says: (kind, shape), where a None in the shape is the batch."""
    rng = np.random.RandomState(seed)
    made = []
    for kind, shape in kinds:
        shape = [batch if d is None else d for d in shape]
        if isinstance(kind, int):
            value = rng.randint(0, kind, shape)
        elif kind == "int":
            value = rng.randint(-9, 10, shape)
        elif kind == "int32":
            value = rng.randint(-9, 10, shape).astype("int32")
        elif kind == "positive":
            value = rng.uniform(0.5, 3, shape).astype("float32")
        elif kind == "natural":
            value = rng.randint(1, 5, shape)
        elif kind == "bool":
            value = rng.rand(*shape) > 0.5
        elif kind == "distinct":
            value = np.argsort(rng.rand(*shape), axis=-1)
        elif kind == "double":
            value = rng.uniform(-2, 2, shape)
        else:
            value = rng.uniform(-2, 2, shape).astype("float32")
        made.append(torch.from_numpy(np.array(value)))
    return tuple(made)


def truth(module, inputs):
    with torch.no_grad():
        found = module(*(value.clone() for value in inputs))
    found = found if isinstance(found, (tuple, list)) else (found,)
    return [value.numpy() for value in found]


def export(module, inputs, path, opset, dynamic, dynamo):
    names = [f"in{k}" for k in range(len(inputs))]
    with torch.no_grad():
        if dynamo:
            shapes = tuple({0: torch.export.Dim("batch")} if axes else None for axes in dynamic) if any(dynamic) else None
            torch.onnx.export(
                module,
                inputs,
                str(path),
                dynamo=True,
                opset_version=opset,
                input_names=names,
                dynamic_shapes=(shapes,) if shapes else None,
                external_data=False,
                verbose=False,
            )
        else:
            axes = {name: {0: "batch"} for name, has in zip(names, dynamic, strict=True) if has}
            torch.onnx.export(
                module,
                inputs,
                str(path),
                dynamo=False,
                opset_version=opset,
                input_names=names,
                dynamic_axes=axes or None,
                keep_initializers_as_inputs=None,
            )


def record(recorder, name, function, kinds, opset, *, dynamic=False, dynamo=False, seed=0, note=""):
    """One export with its runs: on a second batch size, too, where the batch is dynamic."""
    module = Module(function).eval()
    batched = [dynamic and None in shape for _, shape in kinds]
    if dynamic and not any(batched):
        return
    fed = [inputs_of(kinds, 2, seed), *([inputs_of(kinds, 3, seed + 1)] if dynamic else [])]

    def runs():
        return [({f"in{j}": value.numpy() for j, value in enumerate(inputs)}, truth(module, inputs)) for inputs in fed]

    recorder.add(name, lambda path: export(module, fed[0], path, opset, batched, dynamo), runs, note)


def net(rng):
    """A random chain of blocks: module, kinds of inputs, description."""
    kind = rng.choice(["image", "sequence", "matrix"])
    shape = {"image": (None, 4, 8, 8), "sequence": (None, 6, 8), "matrix": (None, 8)}[kind]
    layers, sample, note = [], torch.zeros([2 if d is None else d for d in shape]), []
    for _ in range(rng.randint(1, 6)):
        name, make = rng.choice(BLOCKS)
        try:
            layer = make(rng, tuple(sample.shape))
            with torch.no_grad():
                following = layer(sample)
        except Exception:
            continue
        if following.numel() == 0 or following.numel() > 20000 or following.dim() == 0 or following.shape[0] != 2:
            continue
        layers.append(layer if isinstance(layer, torch.nn.Module) else Module(layer))
        sample = following
        note.append(name)
    net = torch.nn.Sequential(*layers)
    for value in net.buffers():
        if value.dtype == torch.float32:
            value.uniform_(0.5, 1.5)
    return net.eval(), [("float", shape)], " > ".join(note)


def main():
    group, root, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder, dynamo = Recorder(root, group, "torch"), group == "dynamo"
    for name, (function, kinds) in PROGRAMS.items():
        torch.manual_seed(seed)
        function = function() if isinstance(function, type) else function
        if dynamo:
            record(recorder, f"{name}_D18", function, kinds, 18, dynamo=True, seed=seed)
            continue
        for opset in STATIC:
            record(recorder, f"{name}_s{opset}", function, kinds, opset, seed=seed)
        for opset in DYNAMIC:
            record(recorder, f"{name}_d{opset}", function, kinds, opset, dynamic=True, seed=seed)
    print(group, "programs:", recorder.written, flush=True)
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        torch.manual_seed(seed * 100003 + k)
        module, kinds, note = net(rng)
        opset = 18 if dynamo else rng.choice(STATIC)
        dynamic = rng.random() < 0.4
        if note:
            record(recorder, f"net{seed}_{k:05}", module, kinds, opset, dynamic=dynamic, dynamo=dynamo, seed=k, note=note)
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()
