"""A model without its weights, for programs that judge it: they find in their place references to external data.

Such a program looks for the files that are referred to, and for their size, but not into them. So files of the right size with
nothing in them stand in for the weights, however many gigabytes they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from rewriter.onnxfile import external_data
from rewriter.onnxfile.weights_in_files import PREFIX, payload_of
from rewriter.record import record


@record(frozen=True, slots=True)
class Outline:
    """A serialised model, and what stands in for the weights that were left out.

    Attributes:
        data: the model.
        files: size of each file that stands in, by location; empty when nothing was left out.
    """

    data: bytes
    files: Mapping[str, int]

    def put_files(self, folder: Path) -> None:
        """Makes the files, which take no room on the disk."""
        for location, size in self.files.items():
            with open(folder / location, "wb") as file:
                file.truncate(size)


def outline(data: bytes) -> Outline:
    """The outline of a serialised model with marks. Raises RewriterError when the file of some weights is closed."""
    if PREFIX not in data:
        return Outline(data, {})
    message = onnx.ModelProto.FromString(data)
    files: dict[str, int] = {}
    for tensor in external_data.tensors_of(message):
        found = payload_of(tensor)
        if found is not None and not external_data.is_external(tensor):
            location = f"left-out-weights-{found.file.number}"
            files[location] = max(files.get(location, 0), found.offset + found.length)
            place: Mapping[str, Any] = {"location": location, "offset": found.offset, "length": found.length}
            tensor.DiscardUnknownFields()
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
    return Outline(message.SerializeToString(deterministic=True), files)
