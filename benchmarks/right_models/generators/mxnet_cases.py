"""MXNet nets written by hand, most of them correct programs that give the graph of a defect, and nets of several inputs."""

import itertools

import mxnet as mx

S = mx.sym
BOTH = [False, True]


def named_cases():
    """(name, function that gives symbol, shapes and kinds of inputs)."""
    for k, build in enumerate(_cases()):
        yield "case%03d" % k, build


def _cases():
    v = S.Variable
    image = {"data": (2, 4, 8, 8)}

    # outputs that the user chose: inner tensors, groups in any order, one of several
    def conv():
        return S.Convolution(v("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")

    def relu():
        return S.Activation(conv(), act_type="relu", name="act")

    for outputs in (
        ["conv_output", "act_output"],
        ["act_output", "conv_output"],
        ["conv_output"],
        ["pool_output", "conv_output"],
    ):
        yield lambda outputs=outputs: (
            S.Group(
                [
                    S.Pooling(relu(), kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool").get_internals()[o]
                    for o in outputs
                ]
            ),
            image,
            {},
        )
    for parts in ([0], [1], [1, 0], [0, 1]):
        yield lambda parts=parts: (
            S.Group([S.SliceChannel(v("data"), num_outputs=2, axis=1, name="sp")[p] for p in parts]),
            image,
            {},
        )
    # two inputs
    for a, b in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (1, 3, 1)), ((3, 4), (1, 4)), ((2, 3, 4), (2, 1, 4))):
        for operator in "broadcast_add broadcast_sub broadcast_mul broadcast_div broadcast_maximum broadcast_power broadcast_greater broadcast_lesser broadcast_equal".split():
            yield lambda a=a, b=b, operator=operator: (
                getattr(S, operator)(v("a"), v("b")),
                {"a": a, "b": b},
                {"a": "positive", "b": "positive"},
            )
    for ta, tb in itertools.product(BOTH, BOTH):
        left, right = ((5, 3) if ta else (3, 5)), ((4, 5) if tb else (5, 4))
        yield lambda ta=ta, tb=tb, left=left, right=right: (
            S.dot(v("a"), v("b"), transpose_a=ta, transpose_b=tb),
            {"a": left, "b": right},
            {},
        )
        yield lambda ta=ta, tb=tb, left=left, right=right: (
            S.batch_dot(v("a"), v("b"), transpose_a=ta, transpose_b=tb),
            {"a": (2,) + left, "b": (2,) + right},
            {},
        )
        for alpha in (1.0, 0.5, 2.0):
            yield lambda ta=ta, tb=tb, left=left, right=right, alpha=alpha: (
                S.linalg_gemm2(v("a"), v("b"), transpose_a=ta, transpose_b=tb, alpha=alpha),
                {"a": (2,) + left, "b": (2,) + right},
                {},
            )
    # a gemm2 of alpha 1 whose product is scaled by hand, and the other way round
    yield lambda: (S.linalg_gemm2(v("a"), v("b"), name="g") * 0.5, {"a": (2, 3, 4), "b": (2, 4, 3)}, {})
    yield lambda: (S.linalg_gemm2(v("a") * 0.5, v("b"), name="g"), {"a": (2, 3, 4), "b": (2, 4, 3)}, {})
    # indices as floats
    for axis in (0, 1):
        yield lambda axis=axis: (S.take(v("data"), v("at"), axis=axis), {"data": (4, 5), "at": (2, 3)}, {"at": "index"})
    yield lambda: (S.Embedding(v("at"), input_dim=6, output_dim=3, name="emb"), {"at": (2, 3)}, {"at": "index"})
    yield lambda: (S.one_hot(v("at"), depth=5), {"at": (4,)}, {"at": "index"})
    yield lambda: (S.one_hot(v("at"), depth=5, on_value=2.0, off_value=-1.0), {"at": (4,)}, {"at": "index"})
    yield lambda: (S.pick(v("data"), v("at"), axis=1), {"data": (4, 5), "at": (4,)}, {"at": "index"})
    yield lambda: (
        S.SequenceMask(v("data"), v("n"), use_sequence_length=True, axis=1),
        {"data": (3, 4, 2), "n": (3,)},
        {"n": "length"},
    )
    yield lambda: (S.softmax(v("data"), axis=-1, use_length=False), {"data": (3, 4)}, {})
    yield lambda: (
        S.softmax(v("data"), S.Cast(v("n"), dtype="int32"), axis=-1, use_length=True),
        {"data": (3, 4), "n": (3,)},
        {"n": "length"},
    )
    # truth values as numbers, by hand
    yield lambda: (S.where(v("c"), v("a"), v("b")), {"c": (2, 3), "a": (2, 3), "b": (2, 3)}, {"c": "truth"})
    yield lambda: (S.broadcast_mul(v("a") > 0, v("b")), {"a": (2, 3), "b": (2, 3)}, {})
    yield lambda: (S.sum(v("a") > 0, axis=1), {"a": (2, 3)}, {})
    yield lambda: ((v("a") > 0) + (v("b") > 0), {"a": (2, 3), "b": (2, 3)}, {})
    yield lambda: (S.logical_not(v("a") > 0), {"a": (2, 3)}, {})
    yield lambda: (S.Concat(v("a") > 0, v("b"), dim=1), {"a": (2, 3), "b": (2, 3)}, {})

    # normalizations written by hand
    def normalized(x, axis, eps):
        return S.broadcast_div(x, S.sqrt(S.sum(S.square(x), axis=axis, keepdims=True) + eps))

    for axis, eps in itertools.product((1, -1), (0.0, 1e-10, 1e-3)):
        yield lambda axis=axis, eps=eps: (normalized(v("data"), axis, eps), {"data": (2, 4, 3)}, {})
    # a PReLU as wide as the image, square images and channels
    for shape in ((2, 4, 4, 4), (1, 3, 5, 3), (2, 4, 4), (2, 4), (1, 3, 3, 5)):
        yield lambda shape=shape: (S.LeakyReLU(v("data"), act_type="prelu", name="prelu"), {"data": shape}, {})
        yield lambda shape=shape: (S.LeakyReLU(S.identity(v("data")), act_type="prelu", name="prelu"), {"data": shape}, {})
    # pooling by hand: the padding apart
    for include in BOTH:
        yield lambda include=include: (
            S.Pooling(
                S.Pad(v("data"), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
                kernel=(3, 3),
                pool_type="avg",
                count_include_pad=include,
            ),
            image,
            {},
        )

    # weights that are shared
    def w():
        return v("w")

    yield lambda: (
        S.FullyConnected(S.FullyConnected(v("data"), w(), num_hidden=4, no_bias=True), w(), num_hidden=4, no_bias=True),
        {"data": (2, 4)},
        {},
    )
    for flatten in BOTH:
        yield lambda flatten=flatten: (
            S.FullyConnected(v("data"), num_hidden=3, flatten=flatten, name="fc"),
            {"data": (2, 3, 4)},
            {},
        )
        yield lambda flatten=flatten: (
            S.FullyConnected(S.Flatten(v("data")), num_hidden=3, flatten=flatten, name="fc"),
            {"data": (2, 3, 4)},
            {},
        )
        yield lambda flatten=flatten: (
            S.FullyConnected(S.Reshape(v("data"), shape=(0, -1)), num_hidden=3, flatten=flatten, name="fc"),
            {"data": (2, 3, 4)},
            {},
        )
    # deconvolution with and without a target shape
    for target in ((15, 15), (16, 16)):
        yield lambda target=target: (
            S.Deconvolution(v("data"), kernel=(4, 4), stride=(2, 2), num_filter=3, target_shape=target),
            image,
            {},
        )
    yield lambda: (S.Crop(v("data"), offset=(1, 2), h_w=(4, 4), num_args=1), image, {})
    yield lambda: (S.Crop(v("data"), h_w=(4, 4), center_crop=True, num_args=1), image, {})
    yield lambda: (S.Crop(v("data"), S.Pooling(v("data"), kernel=(2, 2), stride=(2, 2)), num_args=2), image, {})
    # shapes
    for operator, arguments in (
        ("broadcast_to", {"shape": (2, 3, 4)}),
        ("broadcast_to", {"shape": (0, 3, 0)}),
        ("broadcast_axis", {"axis": 1, "size": 3}),
    ):
        yield lambda operator=operator, arguments=arguments: (
            getattr(S, operator)(v("data"), **arguments),
            {"data": (2, 1, 4)},
            {},
        )
    yield lambda: (S.broadcast_mul(v("data"), S.Reshape(v("s"), shape=(1, -1, 1, 1))), {"data": (2, 4, 8, 8), "s": (4,)}, {})
    yield lambda: (S.BatchNorm(v("data"), fix_gamma=False, name="bn") * 2.0, image, {})
    yield lambda: (
        S.broadcast_mul(S.BatchNorm(v("data"), fix_gamma=True, name="bn"), v("scale", shape=(1, 4, 1, 1))),
        image,
        {},
    )
    yield lambda: (
        S.broadcast_add(
            S.broadcast_mul(S.BatchNorm(v("data"), name="bn"), v("scale", shape=(1, 4, 1, 1))), v("shift", shape=(1, 4, 1, 1))
        ),
        image,
        {},
    )
    yield lambda: (S.InstanceNorm(S.BatchNorm(v("data"), fix_gamma=True), v("g"), v("b")), image, {})
    yield lambda: (S.LRN(v("data"), nsize=3, name="lrn"), image, {})
    yield lambda: (
        S.ROIPooling(v("data"), v("rois"), pooled_size=(2, 2), spatial_scale=1.0),
        {"data": (1, 3, 8, 8), "rois": (2, 5)},
        {"rois": "length"},
    )
    for mode in ("lstm", "gru", "rnn_tanh"):
        yield lambda mode=mode: (_rnn(mode), {"data": (3, 2, 4)}, {})


def _rnn(mode):
    state = S.zeros((1, 2, 5))
    arguments = {"state_cell": S.zeros((1, 2, 5))} if mode == "lstm" else {}
    return S.RNN(
        S.Variable("data"), S.Variable("weights"), state, state_size=5, num_layers=1, mode=mode, name="rnn", **arguments
    )
