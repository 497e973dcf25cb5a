"""Models of libraries that no rule was written for: torch_libraries.py SET FOLDER COUNT SEED, in an environment with the libraries.

A rule is written after the exports of the libraries that somebody complained about. Whether it leaves the others alone shows only
on exports of others. Each model is small, has random weights, and is exported by the TorchScript exporter at several opsets, with a
fixed and with a dynamic batch, and by the dynamo exporter. COUNT is not used: the models are those of the table.
"""

import importlib
import operator
import sys
import warnings

import torch
from recording import Recorder
from torch_modules import record

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

IMAGE = [("float", (None, 3, 32, 32))]
LARGE = [("float", (None, 3, 64, 64))]
TOKENS = [(20, (None, 16))]
SEQUENCE = [("float", (None, 16, 32))]


def made(path, *arguments, **named):
    """What makes an object: the path of its class in its library, and the arguments."""

    def make():
        module, _, names = path.partition(":")
        return operator.attrgetter(names)(importlib.import_module(module))(*arguments, **named)

    return make


def chained(make, then):
    """A function of what a model gives."""
    return lambda: (lambda model: torch.nn.Sequential(model, then))(make())


class Calling(torch.nn.Module):
    """A model that is called in its own way."""

    def __init__(self, model, call):
        super().__init__()
        self.model = model
        self.call = call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def calling(make, call):
    return lambda: Calling(make(), call)


def decoder(**named):
    def make():
        from x_transformers import Decoder, TransformerWrapper

        return TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=Decoder(dim=32, depth=1, heads=2, **named))

    return make


def encoder(**named):
    def make():
        from x_transformers import Encoder, TransformerWrapper

        return TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=Encoder(dim=32, depth=1, heads=2, **named))

    return make


def policy(name, space, **named):
    """The network that a trained agent of stable-baselines3 acts by."""

    def make():
        import gymnasium
        import stable_baselines3

        boxes = {"box": gymnasium.spaces.Box(-1, 1, (2,)), "discrete": gymnasium.spaces.Discrete(3)}

        class World(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (4,))
            action_space = boxes[space]

            def reset(self, *, seed=None, options=None):
                return self.observation_space.sample(), {}

        agent = getattr(stable_baselines3, name)("MlpPolicy", World(), device="cpu", policy_kwargs={"net_arch": [8]}, **named)
        act = agent.policy
        return Calling(
            act, lambda model, x: model(x, deterministic=True) if name in ("PPO", "A2C") else model._predict(x, True)
        )

    return make


def unets():
    for name in ("Unet", "UnetPlusPlus", "FPN", "PSPNet", "DeepLabV3", "DeepLabV3Plus", "Linknet", "MAnet", "UPerNet"):
        yield f"smp_{name}", made(f"segmentation_models_pytorch:{name}", "resnet18", encoder_weights=None, classes=2), LARGE


def vits():
    common = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 1, "heads": 2, "mlp_dim": 32}
    yield "vit_simple", made("vit_pytorch:SimpleViT", **common), IMAGE
    yield "vit_deep", made("vit_pytorch.deepvit:DeepViT", **common), IMAGE
    yield "vit_recorder", made("vit_pytorch:ViT", **common), IMAGE
    yield "vit_cait", made("vit_pytorch.cait:CaiT", cls_depth=1, **common), IMAGE
    yield "vit_t2t", made("vit_pytorch.t2t:T2TViT", dim=32, image_size=32, depth=1, heads=2, mlp_dim=32, num_classes=5), IMAGE
    yield "vit_small_data", made("vit_pytorch.vit_for_small_dataset:ViT", **common), IMAGE
    yield "vit_parallel", made("vit_pytorch.parallel_vit:ViT", num_parallel_branches=2, **common), IMAGE
    yield "vit_registers", made("vit_pytorch.simple_vit_with_register_tokens:SimpleViT", **common), IMAGE
    yield "vit_patch_dropout", made("vit_pytorch.simple_vit_with_patch_dropout:SimpleViT", **common), IMAGE
    yield "vit_qk_norm", made("vit_pytorch.simple_vit_with_qk_norm:SimpleViT", **common), IMAGE
    yield (
        "vit_cct",
        made(
            "vit_pytorch.cct:CCT",
            img_size=32,
            embedding_dim=32,
            n_conv_layers=1,
            kernel_size=3,
            num_layers=1,
            num_heads=2,
            num_classes=5,
            positional_embedding="learnable",
        ),
        IMAGE,
    )
    yield (
        "vit_levit",
        made(
            "vit_pytorch.levit:LeViT", image_size=64, num_classes=5, stages=2, dim=(16, 32), depth=1, heads=(2, 2), mlp_mult=2
        ),
        LARGE,
    )
    yield (
        "vit_mobile",
        made(
            "vit_pytorch.mobile_vit:MobileViT",
            image_size=(64, 64),
            dims=[16, 20, 24],
            channels=[8, 8, 16, 16, 16, 16, 24, 24, 24, 24, 32],
            num_classes=5,
        ),
        LARGE,
    )
    yield (
        "mixer",
        made("mlp_mixer_pytorch:MLPMixer", image_size=32, channels=3, patch_size=8, dim=32, depth=1, num_classes=5),
        IMAGE,
    )
    yield "resmlp", made("res_mlp_pytorch:ResMLP", image_size=32, patch_size=8, dim=32, depth=1, num_classes=5), IMAGE
    yield "gmlp_vision", made("g_mlp_pytorch:gMLPVision", image_size=32, patch_size=8, num_classes=5, dim=32, depth=1), IMAGE


def sequences():
    yield "gmlp", made("g_mlp_pytorch:gMLP", num_tokens=20, dim=32, depth=1, seq_len=16), TOKENS
    for name, kind, options in (
        ("rotary", decoder, {"rotary_pos_emb": True}),
        ("alibi", decoder, {"alibi_pos_bias": True}),
        ("t5_bias", encoder, {"rel_pos_bias": True}),
        ("dynamic_bias", encoder, {"dynamic_pos_bias": True}),
        ("rmsnorm_glu", encoder, {"use_rmsnorm": True, "ff_glu": True, "ff_swish": True}),
        ("scalenorm", encoder, {"use_scalenorm": True}),
        ("layerscale", encoder, {"use_layerscale": True}),
        ("talking", encoder, {"attn_pre_talking_heads": True}),
        ("sparse_topk", encoder, {"attn_sparse_topk": 4}),
        ("one_kv_head", decoder, {"attn_one_kv_head": True}),
        ("qk_norm", decoder, {"attn_qk_norm": True}),
        ("macaron", encoder, {"macaron": True}),
        ("sandwich", encoder, {"sandwich_norm": True}),
        ("relu_squared", encoder, {"ff_relu_squared": True}),
        ("memory", encoder, {"attn_num_mem_kv": 2}),
        ("shift", decoder, {"shift_tokens": 1}),
        ("gate_values", decoder, {"attn_gate_values": True}),
    ):
        yield f"xt_{name}", kind(**options), TOKENS
    yield (
        "perceiver",
        made(
            "perceiver_pytorch:Perceiver",
            input_channels=3,
            num_freq_bands=2,
            max_freq=4.0,
            depth=1,
            num_latents=4,
            latent_dim=16,
            cross_dim_head=8,
            latent_heads=2,
            latent_dim_head=8,
            num_classes=5,
        ),
        [("float", (None, 8, 8, 3))],
    )
    yield "linformer", made("linformer:Linformer", dim=32, seq_len=16, depth=1, heads=2, k=8), SEQUENCE
    yield "performer", made("performer_pytorch:SelfAttention", dim=32, heads=2, causal=False), SEQUENCE
    yield "conformer", made("conformer:ConformerBlock", dim=32, dim_head=8, heads=2, conv_kernel_size=5), SEQUENCE
    yield "local_attention", made("local_attention.transformer:LocalMHA", dim=32, window_size=4, dim_head=8, heads=2), SEQUENCE
    yield "reformer", made("reformer_pytorch:LSHSelfAttention", dim=32, heads=2, bucket_size=4, n_hashes=2), SEQUENCE
    yield (
        "axial",
        made("axial_attention:AxialAttention", dim=8, dim_index=1, heads=2, num_dimensions=2),
        [("float", (None, 8, 4, 4))],
    )
    yield (
        "itransformer",
        calling(
            made(
                "iTransformer:iTransformer",
                num_variates=4,
                lookback_len=16,
                dim=16,
                depth=1,
                heads=2,
                dim_head=8,
                pred_length=4,
            ),
            lambda model, x: model(x),
        ),
        [("float", (None, 16, 4))],
    )
    yield (
        "lambda_layer",
        made("lambda_networks:LambdaLayer", dim=8, dim_out=8, r=3, dim_k=4, heads=2, dim_u=1),
        [("float", (None, 8, 8, 8))],
    )
    yield (
        "halo",
        made("halonet_pytorch:HaloAttention", dim=8, block_size=4, halo_size=2, dim_head=4, heads=2),
        [("float", (None, 8, 8, 8))],
    )
    yield "soft_moe", made("soft_moe_pytorch:SoftMoE", dim=32, seq_len=16, num_experts=2), SEQUENCE
    yield "hyena_shift", made("hyper_connections:HyperConnections", 2, dim=32, branch=torch.nn.Linear(32, 32)), SEQUENCE
    for name, options in (("cfc", {}), ("ltc", {})):
        make = made(f"ncps.torch:{name.upper() if name == 'ltc' else 'CfC'}", 6, 8, **options)
        yield f"ncps_{name}", calling(make, lambda model, x: model(x)[0]), [("float", (None, 5, 6))]


def others():
    yield "efficientnet_b0", made("efficientnet_pytorch:EfficientNet.from_name", "efficientnet-b0"), LARGE
    yield "resnet_pytorch", made("resnet_pytorch:ResNet.from_name", "resnet18"), LARGE
    yield (
        "ft_transformer",
        made("tab_transformer_pytorch:FTTransformer", categories=(3, 4), num_continuous=2, dim=8, dim_out=1, depth=1, heads=2),
        [(3, (None, 2)), ("float", (None, 2))],
    )
    yield (
        "tabnet",
        calling(
            made("pytorch_tabnet.tab_network:TabNet", 6, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6)),
            lambda model, x: model(x)[0],
        ),
        [("float", (None, 6))],
    )
    yield (
        "kan",
        made("kan.MultKAN:MultKAN", width=[3, 4, 2], grid=3, k=3, auto_save=False, symbolic_enabled=False),
        [("float", (None, 3))],
    )
    yield "ssim", made("pytorch_msssim:SSIM", data_range=1.0, channel=3), [*IMAGE, *IMAGE]
    yield "ms_ssim", made("pytorch_msssim:MS_SSIM", data_range=1.0, channel=3, win_size=3), [*LARGE, *LARGE]
    yield (
        "wavelet",
        calling(
            made("pytorch_wavelets:DWTForward", J=2, wave="db2", mode="zero"), lambda model, x: (model(x)[0], *model(x)[1])
        ),
        IMAGE,
    )
    for name, space in (
        ("PPO", "box"),
        ("A2C", "discrete"),
        ("SAC", "box"),
        ("DQN", "discrete"),
        ("TD3", "box"),
        ("DDPG", "box"),
    ):
        yield (
            f"sb3_{name}",
            policy(name, space, **({} if name in ("PPO", "A2C") else {"buffer_size": 10})),
            [("float", (None, 4))],
        )
    for name in ("InceptionTime", "ResNet", "FCN", "XceptionTime", "OmniScaleCNN", "TCN", "mWDN", "ResCNN", "XCM"):
        yield f"tsai_{name}", series(name), [("float", (None, 3, 24))]
    yield "tsai_TST", series("TST"), [("float", (None, 3, 24))]
    yield (
        "tsai_PatchTST",
        series("PatchTST", pred_dim=4, patch_len=6, stride=3, d_model=16, n_heads=2, n_layers=1, d_ff=16),
        [("float", (None, 3, 24))],
    )
    yield "egnn", made("egnn_pytorch:EGNN", dim=8), [("float", (None, 5, 8)), ("float", (None, 5, 3))]
    yield "flow_maf", flow("nflows.transforms:MaskedAffineAutoregressiveTransform", 4, 8), [("float", (None, 4))]
    yield (
        "flow_spline",
        flow("nflows.transforms:MaskedPiecewiseRationalQuadraticAutoregressiveTransform", 4, 8, tails="linear", tail_bound=3.0),
        [("float", (None, 4))],
    )
    yield "crf_score", made("torchcrf:CRF", 4, batch_first=True), [("float", (2, 6, 4)), (4, (2, 6))]
    yield "odeint", ode(), [("float", (None, 4))]
    yield (
        "ddpm_unet",
        calling(
            made("denoising_diffusion_pytorch:Unet", dim=8, dim_mults=(1, 2), flash_attn=False),
            lambda model, x: model(x, torch.ones(x.shape[0])),
        ),
        IMAGE,
    )
    yield (
        "snac",
        calling(
            made(
                "snac:SNAC",
                encoder_dim=8,
                encoder_rates=[2, 2],
                decoder_dim=16,
                decoder_rates=[2, 2],
                attn_window_size=None,
                vq_strides=[2, 1],
                codebook_size=8,
                codebook_dim=4,
            ),
            lambda model, x: model(x)[0],
        ),
        [("float", (None, 1, 64))],
    )
    for name in (
        "swin_t",
        "convnext_tiny",
        "mobilenet_v3_small",
        "shufflenet_v2_x0_5",
        "squeezenet1_1",
        "mnasnet0_5",
        "regnet_y_400mf",
    ):
        yield f"tv_{name}", made(f"torchvision.models:{name}"), LARGE


def series(name, **named):
    def make():
        module = importlib.import_module(f"tsai.models.{name}")
        return (
            getattr(module, name)(c_in=3, c_out=2, seq_len=24, **named)
            if name not in ("FCN", "ResNet", "XceptionTime", "TCN", "InceptionTime", "ResCNN")
            else getattr(module, name)(3, 2, **named)
        )

    return make


def flow(path, *arguments, **named):
    return lambda: Calling(made(path, *arguments, **named)(), lambda model, x: model(x))


def ode():
    def make():
        from torchdiffeq import odeint

        inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
        times = torch.linspace(0, 1, 4)
        return Calling(inner, lambda model, x: odeint(lambda t, y: model(y), x, times, method="rk4"))

    return make


def programs():
    for part in (unets, vits, sequences, others):
        yield from part()


def main():
    group, root, seed = sys.argv[1], sys.argv[2], int(sys.argv[4])
    recorder = Recorder(root, group, "torch")
    for name, make, kinds in programs():
        try:
            torch.manual_seed(seed)
            model = make().eval()
        except Exception as error:
            print(name, type(error).__name__, str(error).split("\n")[0][:150], flush=True)
            continue
        for opset in (11, 14, 17):
            record(recorder, f"{name}_s{opset}", model, kinds, opset, seed=seed)
        record(recorder, f"{name}_d17", model, kinds, 17, dynamic=True, seed=seed)
        for opset in (18, 20):
            record(recorder, f"{name}_D{opset}", model, kinds, opset, dynamo=True, seed=seed)
    recorder.close()
    print(group, "models:", recorder.written, flush=True)


if __name__ == "__main__":
    main()
