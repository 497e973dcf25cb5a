"""Layers for random PyTorch nets: a name, and a function of a random generator and the shape before it."""

import torch
import torch.nn.functional as F
from torch import nn

BLOCKS = [
    (
        "conv",
        lambda rng, s: nn.Conv2d(
            s[1], rng.choice([3, 4, 6]), rng.choice([1, 3]), rng.choice([1, 2]), rng.choice([0, 1]), bias=rng.random() < 0.5
        ),
    ),
    ("conv1", lambda rng, s: nn.Conv1d(s[1], rng.choice([3, 6]), rng.choice([1, 3]), padding=rng.choice([0, 1]))),
    ("transposed", lambda rng, s: nn.ConvTranspose2d(s[1], 4, 3, 2, 1, rng.choice([0, 1]))),
    ("linear", lambda rng, s: nn.Linear(s[-1], rng.choice([4, 8]), bias=rng.random() < 0.7)),
    ("norm2", lambda rng, s: nn.BatchNorm2d(s[1], affine=rng.random() < 0.7)),
    ("norm1", lambda rng, s: nn.BatchNorm1d(s[1])),
    ("layer norm", lambda rng, s: nn.LayerNorm(s[-1])),
    ("group norm", lambda rng, s: nn.GroupNorm(2, s[1])),
    ("instance norm", lambda rng, s: nn.InstanceNorm2d(s[1], affine=rng.random() < 0.5)),
    (
        "max",
        lambda rng, s: nn.MaxPool2d(rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([0, 1]), ceil_mode=rng.random() < 0.5),
    ),
    (
        "avg",
        lambda rng, s: nn.AvgPool2d(
            rng.choice([2, 3]), rng.choice([1, 2]), rng.choice([0, 1]), rng.random() < 0.5, rng.random() < 0.5
        ),
    ),
    ("adaptive", lambda rng, s: nn.AdaptiveAvgPool2d(rng.choice([1, 2]))),
    ("resize", lambda rng, s: nn.Upsample(scale_factor=2, mode=rng.choice(["nearest", "bilinear"]))),
    (
        "activation",
        lambda rng, s: rng.choice(
            [nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.Softplus, nn.Tanh, nn.Mish]
        )(),
    ),
    ("prelu", lambda rng, s: nn.PReLU(rng.choice([1, s[1]]))),
    ("dropout", lambda rng, s: nn.Dropout(0.3)),
    ("softmax", lambda rng, s: nn.Softmax(rng.choice([1, -1]))),
    ("flatten", lambda rng, s: nn.Flatten(rng.choice([1, 1, -2]))),
    (
        "pad",
        lambda rng, s: (
            lambda x, p=(rng.randint(0, 2), rng.randint(0, 2)), m=rng.choice(["constant", "replicate"]): F.pad(
                x, (*p, *p) if x.dim() == 4 else p, m
            )
        ),
    ),
    ("permute", lambda rng, s: lambda x: x.transpose(1, -1)),
    ("reshape", lambda rng, s: lambda x: x.reshape(x.shape[0], -1, 2)),
    ("mean", lambda rng, s: lambda x, a=rng.choice([1, -1]), k=rng.random() < 0.5: x.mean(a, keepdim=k)),
    ("max over", lambda rng, s: lambda x, a=rng.choice([1, -1]): x.max(a)[0]),
    ("split", lambda rng, s: lambda x: (lambda p: p[0] * torch.sigmoid(p[1]))(x.chunk(2, 1))),
    ("slice", lambda rng, s: lambda x: x[:, 1:]),
    ("scale", lambda rng, s: lambda x, f=rng.choice([0.5, 2.0, -1.0]): x * f + 1),
    ("rsub", lambda rng, s: lambda x, f=rng.choice([1.0, 2.0]): f - x),
    ("clamp", lambda rng, s: lambda x: x.clamp(-1, 1)),
    ("residual", lambda rng, s: lambda x: x + F.relu(x)),
    ("concat", lambda rng, s: lambda x: torch.cat([x, -x], 1)),
    ("attention", lambda rng, s: lambda x: torch.softmax(x @ x.transpose(-1, -2) / 3, -1) @ x),
    ("normalize", lambda rng, s: lambda x: F.normalize(x, dim=1)),
    ("trunc", lambda rng, s: lambda x, r=rng.choice(["trunc", "floor"]): torch.div(x, 0.3, rounding_mode=r)),
    ("argmax mask", lambda rng, s: lambda x: x * (x == x.amax(1, keepdim=True))),
    ("bonus", lambda rng, s: lambda x: x + torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0)),
]
