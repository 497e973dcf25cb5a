"""An environment of its own for each exporter, with pinned packages, and the run of its generator in it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MAX_CRASHES = 50
GENERATORS = Path(__file__).parent / "generators"


@dataclass(frozen=True)
class Environment:
    """A Python version, the packages, and the script that generates."""

    python: str
    packages: tuple[str, ...]
    generator: str


OLD = (
    "requests==2.27.1",
    "urllib3==1.26.20",
    "idna==3.3",
    "charset-normalizer==2.0.12",
    "graphviz==0.8.4",
    "typing-extensions==4.1.1",
)

TORCH = ("torch==2.13.0", "onnx==1.23.2", "onnxscript==0.7.1")

LIBRARIES = (
    "axial-attention==0.6.1",
    "conformer==0.3.2",
    "denoising-diffusion-pytorch==2.3.4",
    "efficientnet_pytorch==0.7.1",
    "egnn-pytorch==0.2.8",
    "g-mlp-pytorch==0.1.5",
    "halonet-pytorch==0.0.5",
    "hyper-connections==0.4.11",
    "iTransformer==0.8.1",
    "lambda-networks==0.4.0",
    "linformer==0.2.3",
    "local-attention==1.11.2",
    "mlp-mixer-pytorch==0.3.1",
    "ncps==1.0.1",
    "nflows==0.14",
    "perceiver-pytorch==0.11.0",
    "performer-pytorch==1.1.4",
    "pykan==0.2.8",
    "pytorch-crf==0.7.2",
    "pytorch-msssim==1.0.0",
    "pytorch-tabnet==4.1.0",
    "pytorch-wavelets==1.3.0",
    "PyWavelets==1.9.0",
    "reformer-pytorch==1.4.4",
    "res-mlp-pytorch==0.0.6",
    "resnet-pytorch==0.2.0",
    "segmentation_models_pytorch==0.6.0",
    "setuptools==79.0.1",
    "snac==1.2.1",
    "soft-moe-pytorch==0.1.9",
    "stable_baselines3==2.9.2",
    "tab-transformer-pytorch==0.6.1",
    "torchdiffeq==0.2.5",
    "torchvision",
    "tsai==1.0.1",
    "vit-pytorch==1.26.11",
    "x-transformers==2.31.10",
)
"""For which no rule was written. torchvision is the one that fits torch."""

EXPORTERS = {
    "mx131": Environment("3.6", ("mxnet==1.3.1", "numpy==1.14.6", "onnx==1.3.0", "protobuf==3.17.3", *OLD), "mxnet_nets.py"),
    "mx151": Environment("3.6", ("mxnet==1.5.1", "numpy==1.19.5", "onnx==1.3.0", "protobuf==3.17.3", *OLD), "mxnet_nets.py"),
    "mx160": Environment("3.7", ("mxnet==1.6.0", "numpy==1.19.5", "onnx==1.6.0", "protobuf==3.20.3"), "mxnet_nets.py"),
    "mx191": Environment("3.8", ("mxnet==1.9.1", "numpy==1.23.5", "onnx==1.8.1", "protobuf==3.20.3"), "mxnet_nets.py"),
    "torch": Environment("3.11", TORCH, "torch_modules.py"),
    "dynamo": Environment("3.11", TORCH, "torch_modules.py"),
    "lib": Environment("3.11", (*TORCH, *LIBRARIES), "torch_libraries.py"),
    "tf": Environment("3.11", ("tensorflow==2.21.0", "tf2onnx==1.17.0"), "tensorflow_programs.py"),
    "pd": Environment("3.11", ("paddlepaddle==2.6.2", "paddle2onnx==1.3.1", "setuptools<80"), "paddle_programs.py"),
    "jax": Environment("3.11", ("jax2onnx==0.17.0",), "jax_programs.py"),
    "sk": Environment("3.11", ("scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnx==1.23.2"), "sklearn_models.py"),
}


def generate(name: str, workdir: Path, count: int, seed: int) -> None:
    """Models of one exporter under WORKDIR/models; those that are there are kept."""
    wanted = EXPORTERS[name]
    python = ensure(name, workdir)
    command = [str(python), str(GENERATORS / wanted.generator), name, str(workdir / "models"), str(count), str(seed)]
    environment = {
        **os.environ,
        "PYTHONPATH": "",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    print(" ".join(command), flush=True)
    for _ in range(MAX_CRASHES):
        code = subprocess.run(command, env=environment).returncode
        if not code or not (workdir / "models" / name / "attempt.txt").exists():
            break  # else the framework crashed; the generator then passes over that net
    if code:
        raise SystemExit(f"{' '.join(command)}: exit {code}")


def ensure(name: str, workdir: Path) -> Path:
    """The environment's Python; makes it and installs the packages unless it is there."""
    wanted, folder = EXPORTERS[name], workdir / "environments" / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        subprocess.run([interpreter(wanted.python), "-m", "venv", str(folder)], check=True)
        if wanted.python == "3.6":
            subprocess.run([str(python), "-m", "pip", "install", "-q", "pip==21.3.1"], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted.packages], check=True)
        done.write_text("\n".join(wanted.packages) + "\n")
    return python


def interpreter(version: str) -> str:
    """A Python of this version: of pyenv where there is one, else by name."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(root.glob(f"{version}.*/bin/python"))
    return str(found[-1]) if found else f"python{version}"


if __name__ == "__main__":
    sys.exit("run.py is the command")
