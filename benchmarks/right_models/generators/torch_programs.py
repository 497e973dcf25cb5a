"""Correct PyTorch programs whose exports look like what a rule repairs, with both values of the arguments that exporters drop.

`PROGRAMS`: name -> (function or module class, kinds of its inputs).
"""

import itertools

import torch
import torch.nn.functional as F
from torch import nn

X = [("float", (None, 6))]
PAIR = [("float", (None, 6)), ("float", (None, 6))]
INTS = [("int", (None, 6)), ("natural", (None, 6))]
IMAGE = [("float", (None, 4, 8, 8))]
SEQUENCE = [("float", (None, 6, 8))]
PROGRAMS = {}


def program(name, function, kinds):
    assert name not in PROGRAMS, name
    PROGRAMS[name] = (function, kinds)


# a scatter into zeros that is added: a mask, a bonus, a penalty, several hot places; each place once or the last value counts
IDS = [("float", (None, 6)), (6, (None, 3))]
ONCE = [("float", (None, 6)), ("distinct", (None, 6)), ("float", (None, 6))]
program("scatter_bonus", lambda x, ids: x + torch.zeros_like(x).scatter(1, ids, 1.0), IDS)
program("scatter_bonus_left", lambda x, ids: torch.zeros_like(x).scatter(1, ids, 1.0) + x, IDS)
program("scatter_bonus_last", lambda x, ids: x + torch.zeros_like(x).scatter(-1, ids, 2.5), IDS)
program("scatter_fresh_zeros", lambda x, ids: x + torch.zeros(x.shape[0], 6).scatter(1, ids, 1.0), IDS)
program("scatter_const_zeros", lambda x, ids: x + torch.zeros(2, 6).scatter(1, ids, 1.0), IDS)
program("repetition_penalty", lambda x, ids: x + torch.zeros_like(x).scatter(1, ids, -(x.gather(1, ids).abs() * 0.2)), IDS)
program(
    "repetition_where",
    lambda x, ids: x.scatter(1, ids, torch.where(x.gather(1, ids) < 0, x.gather(1, ids) * 1.2, x.gather(1, ids) / 1.2)),
    IDS,
)
program("additive_mask", lambda x, ids: x + torch.zeros_like(x).scatter(1, ids, float("-inf")), IDS)
program("additive_mask_large", lambda x, ids: torch.softmax(x + torch.zeros_like(x).scatter(1, ids, -1e9), -1), IDS)
program("multi_hot", lambda x, ids: x + torch.zeros_like(x).scatter_(1, ids, torch.ones_like(ids, dtype=x.dtype)), IDS)
program("multi_hot_int", lambda x, ids: x + torch.zeros_like(x).scatter(1, ids, 1), [("int", (None, 6)), (6, (None, 3))])
program("scatter_once", lambda x, ids, v: x + torch.zeros_like(x).scatter(1, ids, v), ONCE)
program("scatter_into_x", lambda x, ids, v: x.scatter(1, ids, v) + x, ONCE)
program(
    "scatter_copy",
    lambda x, i: x + torch.zeros_like(x).index_copy(1, i, torch.ones(x.shape[0], 3)),
    [("float", (None, 6)), ("distinct", (3,))],
)
program("index_fill", lambda x: x + torch.zeros_like(x).index_fill(1, torch.tensor([0, 2]), 3.0), X)
program(
    "index_put_once",
    lambda x: x + torch.zeros_like(x).index_put((torch.tensor([0, 1]), torch.tensor([2, 3])), torch.tensor([1.0, 2.0])),
    X,
)
program(
    "index_put_last",
    lambda x: x + torch.zeros_like(x).index_put((torch.tensor([0, 0]), torch.tensor([2, 2])), torch.tensor([1.0, 1.0])),
    X,
)


def assigned(x):
    mask = torch.zeros_like(x)
    mask[:, 1:3] = 1.5
    return x + mask


def assigned_rows(x):
    mask = torch.zeros_like(x)
    mask[torch.tensor([0, 1, 0])] = 2.0
    return x + mask


def assigned_masked(x):
    out = torch.zeros_like(x)
    out[x > 0] = 1.0
    return x + out


program("assigned", assigned, X)
program("assigned_rows", assigned_rows, X)
program("assigned_masked", assigned_masked, X)
program("scatter_add_once", lambda x, ids, v: x.scatter_add(1, ids, v), ONCE)
program("index_add_once", lambda x, i, v: x.index_add(1, i, v), [("float", (2, 6)), ("distinct", (4,)), ("float", (2, 4))])
for reduce in ("sum", "mean", "amax", "prod"):
    program(f"scatter_reduce_{reduce}", lambda x, ids, v, r=reduce: x.scatter_reduce(1, ids, v, r), ONCE)
    program(
        f"scatter_reduce_{reduce}_alone", lambda x, ids, v, r=reduce: x.scatter_reduce(1, ids, v, r, include_self=False), ONCE
    )

# division and remainder, every rounding
for kinds_name, kinds in (
    ("i", INTS),
    ("i32", [("int32", (None, 6)), ("natural", (None, 6))]),
    ("f", [("float", (None, 6)), ("positive", (None, 6))]),
):
    cast = (lambda d, x: d.to(x.dtype)) if kinds_name == "i32" else (lambda d, x: d)
    for rounding in ("trunc", "floor"):
        program(f"div_{rounding}_{kinds_name}", lambda x, d, r=rounding, c=cast: torch.div(x, c(d, x), rounding_mode=r), kinds)
        program(f"div_{rounding}_scalar_{kinds_name}", lambda x, d, r=rounding: torch.div(x, 3, rounding_mode=r), kinds)
        program(f"div_{rounding}_power_{kinds_name}", lambda x, d, r=rounding: torch.div(x, 2**2, rounding_mode=r), kinds)
    program(f"remainder_{kinds_name}", lambda x, d, c=cast: torch.remainder(x, c(d, x)), kinds)
    program(f"fmod_{kinds_name}", lambda x, d, c=cast: torch.fmod(x, c(d, x)), kinds)
    program(f"remainder_scalar_{kinds_name}", lambda x, d: x % 3, kinds)
    program(f"fmod_scalar_{kinds_name}", lambda x, d: torch.fmod(x, 3), kinds)
    program(f"true_div_{kinds_name}", lambda x, d, c=cast: x / c(d, x), kinds)
    program(f"floor_by_hand_{kinds_name}", lambda x, d, c=cast: torch.floor(x.float() / c(d, x).float()), kinds)
    program(f"trunc_by_hand_{kinds_name}", lambda x, d, c=cast: (x.float() / c(d, x).float()).trunc().to(x.dtype), kinds)
    program(f"int_and_back_{kinds_name}", lambda x, d, c=cast: (x.float() / c(d, x).float()).to(torch.int64).to(x.dtype), kinds)
    program(f"corrected_{kinds_name}", lambda x, d, c=cast: (x - torch.remainder(x, c(d, x))) / c(d, x), kinds)
    program(
        f"manual_remainder_{kinds_name}", lambda x, d, c=cast: x - torch.div(x, c(d, x), rounding_mode="trunc") * c(d, x), kinds
    )


def floor_corrected(x, d):
    q = torch.div(x, d, rounding_mode="trunc")
    return q - ((torch.remainder(x, d) != 0) & ((x < 0) ^ (d < 0))).to(x.dtype)


def floor_where(x, d):
    q = torch.div(x, d, rounding_mode="trunc")
    return torch.where(q * d > x, q - 1, q)


program("floor_corrected", floor_corrected, INTS)
program("floor_where", floor_where, INTS)
program("shift_right_positive", lambda x: x >> 1, [("natural", (None, 6))])
program("shift_left", lambda x: x << 2, [("natural", (None, 6))])
program("div_by_two_to_k", lambda x, k: torch.div(x, 2**k, rounding_mode="trunc"), INTS)
program("div_by_pow_of_two", lambda x, k: torch.div(x, torch.pow(2, k), rounding_mode="trunc"), INTS)
program("div_by_pow_floor", lambda x, k: torch.div(x, torch.pow(2, k), rounding_mode="floor"), INTS)
program("div_by_float_pow", lambda x, k: x / torch.pow(2.0, k), INTS)
program("exact_shift", lambda x, k: torch.div(x - torch.remainder(x, 2**k), 2**k, rounding_mode="trunc"), INTS)

# pooling
for pool, kernel, stride, padding in itertools.product(("avg", "max"), (2, 3), (1, 2), (0, 1)):
    for ceil, include in itertools.product((False, True), (False, True) if pool == "avg" else (None,)):
        name = f"{pool}{kernel}{stride}{padding}{'c' if ceil else ''}{'' if include is None else 'i' if include else 'x'}"
        if pool == "avg":
            program(name, lambda x, k=kernel, s=stride, p=padding, c=ceil, i=include: F.avg_pool2d(x, k, s, p, c, i), IMAGE)
        else:
            program(name, lambda x, k=kernel, s=stride, p=padding, c=ceil: F.max_pool2d(x, k, s, p, ceil_mode=c), IMAGE)
for size in (1, 2, 4, 8):
    program(f"adaptive_avg{size}", lambda x, s=size: F.adaptive_avg_pool2d(x, s), IMAGE)
    program(f"adaptive_max{size}", lambda x, s=size: F.adaptive_max_pool2d(x, s), IMAGE)
program("lp_pool", lambda x: F.lp_pool2d(x, 2.0, 2), IMAGE)
program("max_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGE)

# resizing
for mode, align, how in itertools.product(
    ("nearest", "bilinear", "bicubic"), (False, True), ("scale", "size", "shrink", "recompute", "uneven")
):
    if mode == "nearest" and align:
        continue
    arguments = {
        "scale": {"scale_factor": 2},
        "size": {"size": (13, 11)},
        "shrink": {"size": (5, 4)},
        "uneven": {"scale_factor": (1.5, 2.0)},
        "recompute": {"scale_factor": 1.6, "recompute_scale_factor": True},
    }[how]
    flag = {} if mode == "nearest" else {"align_corners": align}
    program(
        f"resize_{mode}{'_a' if align else ''}_{how}",
        lambda x, m=mode, a=arguments, f=flag: F.interpolate(x, mode=m, **a, **f),
        IMAGE,
    )
program("resize_like", lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"), [*IMAGE, ("float", (None, 4, 11, 5))])
program("resize_nearest_exact", lambda x: F.interpolate(x, size=(12, 12), mode="nearest-exact"), IMAGE)
program("resize_antialias", lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", antialias=True), IMAGE)
for align, padding, mode in itertools.product((False, True), ("zeros", "border", "reflection"), ("bilinear", "nearest")):
    program(
        f"grid_{mode}_{padding}{'_a' if align else ''}",
        lambda x, g, a=align, p=padding, m=mode: F.grid_sample(x, g.clamp(-0.9, 0.9), m, p, a),
        [*IMAGE, ("float", (None, 5, 5, 2))],
    )

# paddings of every side by another amount
for mode in ("constant", "reflect", "replicate", "circular"):
    program(f"pad_{mode}", lambda x, m=mode: F.pad(x, (1, 2, 3, 0), m), IMAGE)
program("pad_value", lambda x: F.pad(x, (1, 0, 2, 3), value=1.5), IMAGE)
program("pad_negative", lambda x: F.pad(x, (-1, 2, -1, 0)), IMAGE)
program("pad_int", lambda x: F.pad(x, (1, 2)), [("int", (None, 6))])
program("pad_bool", lambda x: F.pad(x > 0, (1, 2)), X)

# comparisons, truth values, casts
program("float_eq", lambda x, y: x.round() == y.round(), PAIR)
program("float_eq_int", lambda x, y: x.to(torch.int32) == y.to(torch.int32), PAIR)
program("float_eq_long", lambda x, y: x.long() == y.long(), PAIR)
program("float_eq_zero", lambda x: x.int() == 0, X)
program("not_zero", lambda x: (x.int() != 0).float() * x, X)
program("where_int", lambda x, y: torch.where(x.int() == 0, x, y), PAIR)
program("mask_product", lambda x: x * (x > 0), X)
program("bool_sum", lambda x: (x > 0).sum(1), X)
program("bool_any_all", lambda x: torch.stack([(x > 0).any(1), (x > -9).all(1)]), X)
program("bool_cumsum", lambda x: (x > 0).cumsum(1), X)
program("bool_to_int", lambda x: (x > 0).int() + 1, X)
program("bool_xor", lambda x, y: (x > 0) ^ (y > 0), PAIR)
program("bool_argmax", lambda x: (x > 0).int().argmax(1), X)
program("argmax_float", lambda x: x.argmax(1).float(), X)
program("argmax_float_keep", lambda x: x.argmax(1, keepdim=True).float() / 2, X)
program("argmax_gather", lambda x: x.gather(1, x.argmax(1, keepdim=True)), X)
program("argmin_flat", lambda x: x.argmin(), X)
program("clamp_int", lambda x: x.clamp(-3, 5), [("int", (None, 6))])
program("clamp_int_float_bounds", lambda x: x.float().clamp(-3.0, 5.0), [("int", (None, 6))])
program("clamp_min_tensor", lambda x, y: torch.clamp(x, min=y), PAIR)
program("relu6", F.relu6, X)
program("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.5), X)
program("round_half", lambda x: (x * 2).round() / 2, X)
program("int_mean", lambda x: x.float().mean(1), [("int", (None, 6))])
program("pow_int", lambda x: x**2, [("int", (None, 6))])
program("pow_negative", lambda x: (x.abs() + 1) ** -0.5, X)
program("rsub", lambda x: 2 - x, X)
program("rdiv", lambda x: 2 / (x.abs() + 1), X)
program("sign_int", lambda x: torch.sign(x), [("int", (None, 6))])
program("double_math", lambda x: torch.exp(x) + x.sum(1, keepdim=True), [("double", (None, 6))])
program(
    "double_conv",
    type(
        "DoubleConv",
        (nn.Module,),
        {
            "__init__": lambda s: (nn.Module.__init__(s), setattr(s, "c", nn.Conv2d(4, 3, 3).double()))[0],
            "forward": lambda s, x: s.c(x),
        },
    ),
    [("double", (None, 4, 8, 8))],
)
program("half_math", lambda x: (x.half() * 2 + 1).float(), X)
program("half_argmax", lambda x: x.half().argmax(1), X)
program("float_index", lambda x, i: x[:, (i.float() * 1).long()], [("float", (None, 6)), (6, (3,))])

# indexing
program("gather_last", lambda x, i: x.gather(-1, i), IDS)
program("gather_first", lambda x, i: x.gather(1, i), IDS)
program("gather_minus_two", lambda x, i: x.gather(-2, i), [("float", (None, 6, 3)), (6, (None, 2, 3))])
program("gather_square", lambda x, i: x.gather(-1, i), [("float", (4, 4)), (4, (4, 4))])
program("gather_cube", lambda x, i: x.gather(-2, i), [("float", (3, 3, 3)), (3, (3, 3, 3))])
program("one_hot_table", lambda x, i: (F.one_hot(i, 6).float().unsqueeze(-1) * x).sum(-2), [("float", (6, 3)), (6, (None,))])
program("one_hot_sum", lambda x, i: (x.unsqueeze(-1) * F.one_hot(i, 6).float()).sum(1), [("float", (None, 3)), (6, (None, 3))])
program(
    "one_hot_axis",
    lambda x, i: (x.unsqueeze(1) * F.one_hot(i, 6).float().transpose(1, 2)).sum(-1),
    [("float", (None, 3)), (6, (None, 3))],
)
program("one_hot_compare", lambda i: (i.unsqueeze(-1) == torch.arange(6)).float(), [(6, (None, 3))])
program("one_hot_known", lambda i: F.one_hot(i, 7), [(6, (None, 3))])
program("take_along", lambda x, i: torch.take_along_dim(x, i, 1), IDS)
program("index_select", lambda x, i: x.index_select(1, i), [("float", (None, 6)), (6, (3,))])
program("advanced", lambda x, i: x[torch.arange(x.shape[0]), i], [("float", (None, 6)), (6, (None,))])
program("masked_fill", lambda x: x.masked_fill(x > 0.5, -1e9), X)
program("masked_select", lambda x: x[x > 0.5], X)
program("nonzero", lambda x: torch.nonzero(x > 0.5), X)
program("tril_mask", lambda x: x.masked_fill(torch.ones(6, 8).tril() == 0, float("-inf")), SEQUENCE)
program("triu", lambda x: torch.triu(x, 1), SEQUENCE)
program("topk", lambda x: torch.topk(x, 3, dim=1), X)
program("topk_smallest", lambda x: torch.topk(x, 3, dim=1, largest=False), X)
program("sort_up", lambda x: torch.sort(x, dim=1), X)
program("sort_down", lambda x: torch.sort(x, dim=1, descending=True), X)
program("sort_int_up", lambda x: torch.sort(x, dim=1)[0], [("int", (None, 6))])
program("topk_int_smallest", lambda x: torch.topk(x, 2, dim=1, largest=False)[0], [("int", (None, 6))])
program("sort_int32_up", lambda x: torch.sort(x, dim=1)[0], [("int32", (None, 6))])
program("unique", lambda x: torch.unique(x), [("int", (None, 6))])
program("cumsum_last", lambda x: x.cumsum(-1), X)
program("cumsum_reverse", lambda x: x.flip(1).cumsum(1).flip(1), X)
program("roll", lambda x: x.roll(2, 1), X)
program("flip", lambda x: x.flip(1), X)

# normalizations and activations, with every default and near it
for slope in (0.01, 0.1, 0.2, 0.0, 1.0):
    program(f"leaky{slope}", lambda x, s=slope: F.leaky_relu(x, s), X)
for axis in (0, 1, -1, 2):
    program(f"softmax{axis}", lambda x, a=axis: F.softmax(x, a), SEQUENCE)
    program(f"log_softmax{axis}", lambda x, a=axis: F.log_softmax(x / 2, a), SEQUENCE)
    program(f"normalize{axis}", lambda x, a=axis: F.normalize(x, dim=a), SEQUENCE)
    program(f"sum_keep{axis}", lambda x, a=axis: x.sum(a, keepdim=True) + x, SEQUENCE)
    program(f"mean{axis}", lambda x, a=axis: x.mean(a), SEQUENCE)
    program(f"var{axis}", lambda x, a=axis: x.var(a, unbiased=False), SEQUENCE)
    program(f"std{axis}", lambda x, a=axis: x.std(a), SEQUENCE)
    program(f"logsumexp{axis}", lambda x, a=axis: x.logsumexp(a), SEQUENCE)
program("sum_everything", lambda x: x.sum(), SEQUENCE)
program("sum_to_one", lambda x: x.sum().reshape(1), SEQUENCE)
program("sum_keeps_rank", lambda x: x.sum((1, 2), keepdim=True), SEQUENCE)
program("norm_everything", lambda x: x.norm(), SEQUENCE)
program("norm_axis", lambda x: x.norm(dim=1), SEQUENCE)
program("amax_power", lambda x: x.abs().amax(1), SEQUENCE)
program("layer_norm", lambda x: F.layer_norm(x, (8,)), SEQUENCE)
program(
    "layer_norm_by_hand",
    lambda x: (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5),
    SEQUENCE,
)
program("layer_norm_far", lambda x: F.layer_norm(x + 300, (8,)), SEQUENCE)
program("rms_norm", lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), SEQUENCE)
program("group_norm", lambda x: F.group_norm(x, 2), IMAGE)
program("instance_norm", lambda x: F.instance_norm(x), IMAGE)
program("local_response", lambda x: F.local_response_norm(x, 3), IMAGE)
program("gelu", F.gelu, X)
program("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), X)
program("gelu_near", lambda x: 0.5 * x * (1 + torch.erf(x / 1.5)), X)
program("hardswish", F.hardswish, X)
program("hardsigmoid", F.hardsigmoid, X)
program("hardswish_near", lambda x: x * F.relu6(x + 3) / 5, X)
program("silu", F.silu, X)
program("mish", F.mish, X)
program("elu", lambda x: F.elu(x, 0.5), X)
program("threshold", lambda x: F.threshold(x, 0.5, 0.1), X)
program("dropout", lambda x: F.dropout(x, 0.5, training=False) * 2, X)


def layer(name, make, kinds):
    """A program from a module that is made when it is asked for."""
    program(
        name,
        type(
            name,
            (nn.Module,),
            {"__init__": lambda s: (nn.Module.__init__(s), setattr(s, "m", make()))[0], "forward": lambda s, *x: s.m(*x)},
        ),
        kinds,
    )


layer("prelu_one", lambda: nn.PReLU(), IMAGE)
layer("prelu_channels", lambda: nn.PReLU(4), IMAGE)
layer("prelu_square", lambda: nn.PReLU(4), [("float", (None, 4, 4, 4))])
layer("prelu_matrix", lambda: nn.PReLU(6), X)
layer("batch_norm", lambda: nn.BatchNorm2d(4), IMAGE)
layer("batch_norm_plain", lambda: nn.BatchNorm2d(4, affine=False), IMAGE)
layer("batch_norm_matrix", lambda: nn.BatchNorm1d(6), X)
layer("conv_norm", lambda: nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()), IMAGE)
layer("linear_rank3", lambda: nn.Linear(8, 5), SEQUENCE)
layer("linear_plain", lambda: nn.Linear(6, 5, bias=False), X)
layer("bilinear", lambda: nn.Bilinear(6, 6, 4), PAIR)
layer("transposed", lambda: nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), IMAGE)
layer("conv_same", lambda: nn.Conv2d(4, 3, (2, 4), padding="same"), IMAGE)
layer("conv_circular", lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), IMAGE)
layer("conv_dilated", lambda: nn.Conv1d(6, 6, 3, dilation=2, groups=2), SEQUENCE)
layer("embedding", lambda: nn.Embedding(6, 4, padding_idx=0), [(6, (None, 3))])
layer("embedding_bag", lambda: nn.EmbeddingBag(6, 4, mode="mean"), [(6, (None, 3))])
layer("lstm", lambda: nn.LSTM(8, 5, batch_first=True), SEQUENCE)
layer("gru", lambda: nn.GRU(8, 5, 2, bidirectional=True, batch_first=True), SEQUENCE)
layer("rnn", lambda: nn.RNN(8, 5, nonlinearity="relu"), SEQUENCE)
layer("attention", lambda: nn.MultiheadAttention(8, 2, batch_first=True), SEQUENCE * 3)
layer("transformer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE)
layer("pixel_shuffle", lambda: nn.PixelShuffle(2), IMAGE)
layer("pixel_unshuffle", lambda: nn.PixelUnshuffle(2), IMAGE)
layer("unfold", lambda: nn.Unfold(2), IMAGE)
layer("channel_shuffle", lambda: nn.ChannelShuffle(2), IMAGE)

# shapes
program("view_batch", lambda x: x.view(x.shape[0], -1), IMAGE)
program("view_swap", lambda x: x.view(x.shape[0], 2, 2, 8, 8).transpose(1, 2).reshape(x.shape), IMAGE)
program("permute_last", lambda x: x.permute(0, 2, 3, 1), IMAGE)
program("permute_there_and_back", lambda x: x.permute(0, 2, 3, 1).exp().permute(0, 3, 1, 2), IMAGE)
program("expand_like", lambda x, y: x[:, :1].expand_as(y) + y, PAIR)
program("repeat", lambda x: x.repeat(1, 2), X)
program("repeat_interleave", lambda x: x.repeat_interleave(2, 1), X)
program("split_uneven", lambda x: torch.split(x, [1, 2, 3], 1), X)
program("chunk", lambda x: torch.chunk(x, 4, 1), X)
program("unbind", lambda x: torch.unbind(x, 1), X)
program("stack_unbind", lambda x: torch.stack(torch.unbind(x, 1)[::-1], 1), X)
program("narrow", lambda x: x.narrow(1, 2, 3), X)
program("einsum_ij", lambda x, y: torch.einsum("bi,bj->bij", x, y), PAIR)
program("einsum_attention", lambda x, y: torch.einsum("bid,bjd->bij", x, y), SEQUENCE * 2)
program("baddbmm", lambda x: torch.baddbmm(x @ x.transpose(1, 2), x, x.transpose(1, 2), beta=0.5, alpha=2), SEQUENCE)
program("addmm", lambda x, y: torch.addmm(x, x, y.t() @ y, beta=0.5, alpha=0.1), PAIR)
program("sdpa", lambda x: F.scaled_dot_product_attention(x, x, x), SEQUENCE)
program("sdpa_causal", lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), SEQUENCE)
program("meshgrid", lambda x, y: torch.meshgrid(x[0], y[0], indexing="ij"), PAIR)
program("cdist", lambda x, y: torch.cdist(x, y), SEQUENCE * 2)
program("cosine", lambda x, y: F.cosine_similarity(x, y), PAIR)
program("atan2", lambda x, y: torch.atan2(x, y), PAIR)
program("nan_to_num", lambda x: torch.nan_to_num(x / 0.5), X)
program("isnan", lambda x: torch.isnan(x.log()), X)
program("bitwise", lambda x, d: (x & d) | (x ^ d), [("natural", (None, 6))] * 2)
program("searchsorted", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), X)
