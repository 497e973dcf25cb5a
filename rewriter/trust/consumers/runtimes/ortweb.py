"""onnxruntime-web, WebAssembly on the processor, in Node: the npm package in the folder `node_modules` of the environment."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = Path(sys.prefix) / "node_modules" / "onnxruntime-web"
if not PACKAGE.exists():
    raise ModuleNotFoundError(f"there is no {PACKAGE}")
NODE = ["node", "--disable-wasm-trap-handler", "-e"]  # the handler reserves more addresses than a limit of memory allows
PROGRAM = """
const ort = require(process.argv[1]);
const lines = require('readline').createInterface({input: process.stdin});
const kinds = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
};
ort.env.wasm.numThreads = 1;
let session;
const tensor = ([type, text, dims]) =>
  new ort.Tensor(type, new kinds[type](Uint8Array.from(Buffer.from(text, 'base64')).buffer), dims);
const plain = ({type, data, dims}) =>
  [type, Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64'), dims];
const answer = async ({path, feed, outputs}) => {
  if (path) {
    session = await ort.InferenceSession.create(path, {executionProviders: ['wasm']});
    return [];
  }
  const tensors = Object.entries(feed).map(([name, value]) => [name, tensor(value)]);
  const found = await session.run(Object.fromEntries(tensors), outputs);
  return outputs.map((name) => plain(found[name]));
};
(async () => {
  for await (const line of lines) {
    const result = answer(JSON.parse(line)).then((found) => ({found}), (error) => ({error: String(error.message || error)}));
    process.stdout.write(JSON.stringify(await result) + '\\n');
  }
})();
"""


def version() -> str:
    return f"onnxruntime-web {json.loads((PACKAGE / 'package.json').read_text())['version']}"


def read(path: str, outputs: list[str]) -> Any:
    node = subprocess.Popen([*NODE, PROGRAM, str(PACKAGE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _tell(node, {"path": path})
    return node


def run(node: Any, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    tensors = {name: [value.dtype.name, _text(value), value.shape] for name, value in feed.items()}
    found = _tell(node, {"feed": tensors, "outputs": outputs})
    return [np.frombuffer(base64.b64decode(data), dtype).reshape(shape) for dtype, data, shape in found]


def _text(value: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()


def _tell(node: Any, question: dict[str, Any]) -> list[Any]:
    node.stdin.write(json.dumps(question) + "\n")
    node.stdin.flush()
    line = node.stdout.readline()
    if not line:
        raise RuntimeError(f"node ended: {node.wait()}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return list(answer["found"])
