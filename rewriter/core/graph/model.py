"""A model: its graph, which rules and scripts edit, and its message, which keeps everything else.

    model = load("net.onnx")
    ...                         # edit model.graph, a gs.Graph
    model.save("net.fixed.onnx")

Unedited parts are written back as they were read. An unedited model is written byte for byte.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import onnx
import onnx_graphsurgeon as gs
from google.protobuf.message import Error as ProtobufError  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError, for_python
from rewriter.core.framework.exporter import LISTING_EXPORTERS, detect
from rewriter.core.graph.load import build
from rewriter.core.graph.objects import Constant, Graph, Origin, find_scopes
from rewriter.core.graph.save import Fields, Writer, assemble, set_text, written_imports
from rewriter.core.isolation.budget import collector_off
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import MOST_BYTES, check_target, read_bytes, write_file
from rewriter.core.onnxfile.model_file import (
    Outline,
    Payload,
    RawGraph,
    RawModel,
    WeightFile,
    digest,
    joined,
    length,
    outline,
    raw_message,
    raw_model,
    read_model_file,
    with_weights,
    write_pieces,
)
from rewriter.core.onnxfile.tensors import text

ConstantInputs = Literal["auto", "yes", "no"]
NODES_HAVE_METADATA = 10  # first ir_version


class Model:
    """A model that can be edited and written back.

    Attributes:
        graph: its graph, with subgraphs and local functions (`graph.functions`). Edit these fields of the model in the graph:
            opset, import_domains, ir_version, producer_name and producer_version. The model's own doc_string is
            `graph.model_doc_string`.
        path: the file that it was read from, None for a model from a `ModelProto`.
        folder: the folder of external data, None if it is unknown.
        metadata: metadata_props by key; you may edit it.
        marks_nodes: whether nodes are written with the rules that made or changed them, if ir_version is 10 or newer.
        constant_inputs: whether an initializer that is also a graph input is constant: "yes", "no" (a caller may override it),
            or "auto": yes if ir_version < 4, if all initializers are inputs, or if MXNet or Caffe2 wrote the model.
    """

    def __init__(
        self,
        raw: Any,
        folder: Path | None = None,
        path: Path | None = None,
        weights: WeightFile | None = None,
    ) -> None:
        """Use `load` or `from_proto` to get a model. `raw` is its message, with nodes as bytes."""
        self._raw = raw
        self._proto: onnx.ModelProto | None = None
        self._weights = weights
        self.path = path
        self.folder = folder
        self.graph: gs.Graph = build(raw, folder)
        self.graph.weights = weights
        self.metadata: dict[str, str] = _metadata(raw)
        self.graph.model_metadata = self.metadata
        self.constant_inputs: ConstantInputs = "auto"
        self.marks_nodes = False
        self._late: LateDigest | None = None
        self._stamp: tuple[int, int] | None = None

    def __repr__(self) -> str:
        number = len(self.graph.nodes)
        return f"<Model {self.path or self.graph.name}: {number:,} node{'s' * (number != 1)}, opset {self.graph.opset}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: inputs and outputs with their types."""
        from rewriter.core.notebook import table

        sides = (("input", self.graph.inputs), ("output", self.graph.outputs))
        rows = [(side, tensor.name, _type_text(tensor)) for side, tensors in sides for tensor in tensors]
        return table(repr(self), ("", "name", "type"), rows)

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, base_dir: str | os.PathLike[str] | None = None) -> Model:
        """Makes a model from a `ModelProto`, which is copied.

        Args:
            proto: the model; it is not checked.
            base_dir: the folder of external data.
        Raises:
            RewriterError: the model has names that are not UTF-8, or subgraphs more than 34 levels deep.
        """
        return cls(raw_message(RawModel, proto), None if base_dir is None else Path(base_dir))

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as it was read. Do not change it. The weights of a large model are read at every access."""
        if self._weights is not None:
            return _complete(_serialised(self._raw))
        if self._proto is None:
            self._proto = _complete(_serialised(self._raw))
        return self._proto

    @property
    def listed(self) -> frozenset[str]:
        """Names of initializers that are also graph inputs."""
        return frozenset(constant.name for constant in self._initializers() if constant.listed)

    @property
    def inputs_are_constant(self) -> bool:
        """Whether initializers that are also graph inputs are constant, by `constant_inputs`."""
        if self.constant_inputs != "auto":
            return self.constant_inputs == "yes"
        return self._lists_all() or detect(self.graph).name in LISTING_EXPORTERS

    @property
    def overridable(self) -> frozenset[str]:
        """Names of initializers that are not constant: training sets them, or a caller may (see `constant_inputs`)."""
        return set_by_training(self.training_info) | (frozenset() if self.inputs_are_constant else self.listed)

    def drop(self, constant: gs.Constant) -> None:
        """Removes an initializer from the graph or subgraph that holds it. If a node still reads it, it is still written."""
        for graph in (scope.graph for scope in find_scopes(self.graph)):
            if isinstance(graph, Graph) and any(tensor is constant for tensor in graph.initializers):
                graph.initializers = [tensor for tensor in graph.initializers if tensor is not constant]
                return

    def to_proto(self) -> onnx.ModelProto:
        """Returns the model as it is now, as a new `ModelProto`. The `ModelProto` of an unedited model equals `proto`.

        Raises:
            RewriterError: a part of the graph cannot be written (an attribute value of no ONNX type, a name that is no text),
                or weights cannot be read.
        """
        return _complete(_serialised(self._message()))

    def __reduce__(self) -> tuple[Any, ...]:
        """The message, weights included: a model can be sent to another process, and copied by `copy.deepcopy`."""
        state = {"path": self.path, "constant_inputs": self.constant_inputs, "marks_nodes": self.marks_nodes}
        return Model.from_proto, (self.to_proto(), self.folder), state

    def outline(self) -> Outline:
        """Returns the model as it is now, without the weights that stayed in a file. Raises errors as `to_proto` does."""
        return outline(_serialised(self._message()))

    def sketch(self) -> onnx.ModelProto:
        """Returns the model as it is now, for inspection only. Weights that stayed in a file are not in the `ModelProto`,
        but can be read.

        Raises errors as `to_proto` does.
        """
        message: onnx.ModelProto = onnx.ModelProto.FromString(_serialised(self._message(wait=False)))
        return message

    @property
    def edited(self) -> bool:
        """Whether the model differs from the model that was read. Compares the whole model at every access."""
        return _serialised(self._message()) != _serialised(self._raw)

    def read_digest(self) -> str:
        """Returns the SHA-256 of the file that the model was read from, in hexadecimal.

        Raises:
            RewriterError: the file has changed since, or the model was not read from a file.
        """
        if self._weights is not None:
            return digest([Payload(self._weights, 0, self._weights.size)])
        if self.path is None:
            raise RewriterError("the model was read from no file")
        data = read_bytes(self.path)
        if _stamp(data) != self._stamp:
            raise RewriterError(f"{self.path} changed while rewriter was working on it; run the command again")
        return digest([data])

    def digest_to_record(self) -> str:
        """Returns `read_digest` for `metadata`; for a large model, a placeholder that is replaced when the model is written."""
        if self._weights is None:
            return self.read_digest()
        self._late = self._late or LateDigest(self._weights)
        return self._late.placeholder

    def written_digest(self) -> str:
        """Returns the SHA-256 of the bytes that `save` would write, in hexadecimal. Raises errors as `save` does."""
        return digest(self._pieces(_serialised(self._message())))

    @property
    def is_large(self) -> bool:
        """Whether the file of the model is so large that its weights were not read."""
        return self._weights is not None

    @property
    def training_info(self) -> Any:
        """The training information of the model. It is written as it was read."""
        return self._raw.training_info

    @property
    def configurations(self) -> Any:
        """The device configurations that nodes refer to. They are written as they were read."""
        return self._raw.configuration

    def write(
        self, path: str | os.PathLike[str], *, force: bool = False, as_read: bool = False, serialised: bytes | None = None
    ) -> None:
        """Writes the model, at once or not at all. An unedited model is written byte for byte as it was read.

        If `path` is in another folder, external data files are copied to the same relative place in it.

        Args:
            path: the file; its folder must exist. A symbolic link is rejected.
            force: replace an existing file, and external data files that differ.
            as_read: the caller knows that the model was not edited, so that no comparison is needed.
            serialised: the bytes of the model as it is now, if the caller has them.
        Raises:
            RewriterError: the target exists, cannot be written, or the model would exceed 2 GiB.
        """
        target = Path(path)
        check_target(target, force)
        before = self._as_it_was() if as_read else None
        data = before or serialised or _serialised(self._raw if as_read else self._message(wait=False))
        pieces = [before] if before else self._pieces(data)
        if (size := length(pieces)) > MOST_BYTES:
            raise RewriterError(
                f"{target}: the model would have {size / 2**30:.1f} GiB, but one protobuf file holds 2 GiB at most"
            )
        if self.folder is not None and external_data.may_refer(data):
            external_data.copy_data_files(onnx.ModelProto.FromString(data), self.folder, target.parent, force)
        write_file(target, lambda descriptor: self._fill(descriptor, pieces), force)

    save = for_python(write)  # for callers from Python: commands use `write`, whose errors name their options

    # --- inside ------------------------------------------------------------------------------------------------------------

    def _fill(self, descriptor: int, pieces: Sequence[bytes | Payload]) -> None:
        write_pieces(descriptor, pieces)
        if self._late is not None:
            os.fsync(descriptor)  # the digest is still being computed: the disk need not wait for it
            self._late.write(descriptor, pieces)

    def _message(self, *, wait: bool = True) -> Any:
        """The raw message of the model as it is now. For weights that stayed in a file, the message holds their place.

        Without `wait`, a placeholder replaces a digest that is not known yet.
        """
        if wait and self._late is not None:
            late, self._late = self._late, None
            digest = late.result()
            self.metadata = {key: value.replace(late.placeholder, digest) for key, value in self.metadata.items()}
        ir_version = int(self.graph.ir_version or 0)
        marks = self.marks_nodes and ir_version >= NODES_HAVE_METADATA
        writer = Writer(self.folder, 0 < (self.graph.ir_version or 0) < 4, ir_version, marks, bool(self.configurations))
        try:
            with collector_off():
                return self._written(writer)
        except (UnicodeError, TypeError, ValueError, ProtobufError) as error:
            raise RewriterError(f"the edited model cannot be written: {error}") from error

    def _written(self, writer: Writer) -> Any:
        graph = self.graph
        origin = graph.origin if isinstance(graph, Graph) else Origin(RawGraph())
        source, graph_fields = writer.graph_fields(graph)
        fields: Fields = {}
        Writer.set_list(fields, "functions", self._raw.functions, list(map(writer.function, graph.functions)))
        imports = written_imports(graph, origin, writer.new_nodes, writer.ir_version)
        if imports is not None:
            fields["opset_import"] = imports
        if graph.ir_version != (self._raw.ir_version if self._raw.HasField("ir_version") else None):
            fields["ir_version"] = graph.ir_version
        for name in ("producer_name", "producer_version"):
            if text(getattr(self._raw, name)) != (getattr(graph, name) or ""):
                fields[name] = getattr(graph, name) or None
        if isinstance(graph, Graph) and graph.model_doc_string is not None:
            set_text(fields, self._raw, "doc_string", graph.model_doc_string)
        if self.metadata != _metadata(self._raw):
            fields["metadata_props"] = self._metadata_props()
        result = RawModel()
        if graph_fields or source is not self._raw.graph:
            fields["graph"] = None
        assemble(result, self._raw, fields)
        if "graph" in fields:
            result.graph.SetInParent()
            assemble(result.graph, source, graph_fields)
        return result

    def _pieces(self, data: bytes) -> Sequence[bytes | Payload]:
        """The pieces to write for a serialised message of this model: the file that it was read from, if the message is
        unchanged.
        """
        if data == _serialised(self._raw):
            if self._weights is not None:
                return [Payload(self._weights, 0, self._weights.size)]
            if before := self._as_it_was():
                return [before]
        return with_weights(data)

    def _as_it_was(self) -> bytes | None:
        """The bytes of the file that the model was read from, if it is small and unchanged."""
        if self._weights is None and self.path is not None and self._stamp is not None:
            with contextlib.suppress(RewriterError):
                before = read_bytes(self.path)
                if _stamp(before) == self._stamp:
                    return before
        return None

    def _metadata_props(self) -> list[onnx.StringStringEntryProto]:
        """The entries in their order, with the values they have now; new ones last."""
        result = []
        left = dict(self.metadata)
        last = {text(entry.key): i for i, entry in enumerate(self._raw.metadata_props)}
        for i, entry in enumerate(self._raw.metadata_props):
            key = text(entry.key)
            if key not in self.metadata:
                continue
            if last[key] == i and text(entry.value) != self.metadata[key]:
                entry = onnx.StringStringEntryProto(key=key, value=self.metadata[key])
            left.pop(key, None)
            result.append(entry)
        result.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in left.items())
        return result

    def _lists_all(self) -> bool:
        constants = self._initializers()
        return 0 < (self.graph.ir_version or 0) < 4 or (bool(constants) and all(constant.listed for constant in constants))

    def _initializers(self) -> list[Constant]:
        origin = self.graph.origin if isinstance(self.graph, Graph) else None
        own = () if origin is None else (*origin.constants, *origin.sparse)
        return [tensor for tensor in own if isinstance(tensor, Constant)]


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model, also if the ONNX checker rejects it. External data are read when a value is first used.

    Raises:
        RewriterError: the file is missing, or it is no ONNX model; the message names its apparent format.
    """
    file = Path(path)
    found = read_model_file(file, raw_model)
    try:
        model = Model(found.proto, Path(os.path.abspath(file)).parent, file, found.weights)
    except RewriterError as error:
        raise RewriterError(f"{file}: {error}") from error
    model._stamp = None if found.data is None else _stamp(found.data)
    return model


def _type_text(tensor: gs.Tensor) -> str:
    shape = "" if tensor.shape is None else f"[{', '.join(map(str, tensor.shape))}]"
    return f"{getattr(tensor.dtype, '__name__', tensor.dtype or '')}{shape}"


def _metadata(proto: Any) -> dict[str, str]:
    return {text(entry.key): text(entry.value) for entry in proto.metadata_props}


def _stamp(data: bytes) -> tuple[int, int]:
    return len(data), zlib.crc32(data)


def _serialised(message: Any) -> bytes:
    try:
        return bytes(message.SerializeToString(deterministic=True))
    except (ProtobufError, ValueError) as error:
        raise RewriterError(f"the model cannot be written as one protobuf file of at most 2 GiB: {error}") from error


def _complete(data: bytes) -> onnx.ModelProto:
    complete: onnx.ModelProto = onnx.ModelProto.FromString(joined(with_weights(data)))
    return complete


class LateDigest:
    """SHA-256 of a file of weights, in hexadecimal, computed while the file that gets the digest is being written: to digest a
    gigabyte takes about as long as to copy it, and both can be done at once.

    Until the digest is known, a text of the same length replaces it. At the end the digest is written over this text.

    Attributes:
        placeholder: the text that replaces the digest: random, so that it occurs nowhere else in a model.
    """

    def __init__(self, file: WeightFile) -> None:
        self.placeholder = secrets.token_hex(32)
        self._found = ""
        self._error: RewriterError | None = None
        self._thread = Thread(target=self._work, args=(file,), daemon=True)
        self._thread.start()

    def _work(self, file: WeightFile) -> None:
        try:
            self._found = digest([Payload(file, 0, file.size)])
        except RewriterError as error:
            self._error = error

    def result(self) -> str:
        """The digest, as soon as it is known. Raises RewriterError when the file was changed or cannot be read."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def write(self, descriptor: int, pieces: Sequence[bytes | Payload]) -> None:
        """Writes the digest over the placeholder in a file that was written from these pieces."""
        offset, wanted = 0, self.placeholder.encode()
        for piece in pieces:
            if isinstance(piece, bytes):
                place = piece.find(wanted)
                if place >= 0:
                    os.lseek(descriptor, offset + place, os.SEEK_SET)
                    os.write(descriptor, self.result().encode())
                    return
            offset += len(piece) if isinstance(piece, bytes) else piece.length


# The training information of a model names tensors of its graph. An edit that removes or renames them makes it meaningless.
#
# No checker reads this information: such a model would pass, and be wrong only when it is trained further.


def drop_stale_training(infos: Any, graph: gs.Graph) -> list[str]:
    """Removes the training information of a model that lacks tensors that it names. Returns a note about the removal."""
    if not infos:
        return []
    known = {tensor.name for tensor in (*graph.inputs, *graph.initializers, *chain(*(node.outputs for node in graph.nodes)))}
    gone = sorted(named_by_training(infos) - known)
    if not gone:
        return []
    del infos[:]
    return [f"the training information is left out: it names {gone[0]!r}, which is no tensor of the result"]


def set_by_training(infos: Iterable[onnx.TrainingInfoProto]) -> frozenset[str]:
    """The initializers whose values training changes, so that they are no constants."""
    return frozenset(entry.key for info in infos for entry in (*info.initialization_binding, *info.update_binding))


def named_by_training(infos: Iterable[onnx.TrainingInfoProto]) -> frozenset[str]:
    """The tensors of the model's own graph that its training reads or sets."""
    return frozenset(name for info in infos for name in _named(info))


def _named(info: onnx.TrainingInfoProto) -> frozenset[str]:
    own = set[str]()
    for graph in (info.initialization, info.algorithm):
        own.update(tensor.name for tensor in (*graph.input, *graph.initializer))
        own.update(tensor.values.name for tensor in graph.sparse_initializer)
        own.update(chain(*(node.output for node in graph.node)))
    read = set(chain(*(node.input for node in (*info.initialization.node, *info.algorithm.node))))
    return (set_by_training([info]) | read) - own - {""}
