"""Tiny ONNX networks, whose features are the mean colours of patches."""

import json

import numpy as np
import pytest

from supdocnade.images import network_library

DESCRIPTION = {"name": "tiny", "side": 8, "mean": 127, "scale": 128, "licence": "CC0-1.0"}
"""The description of `write_network` by default."""

LAYERS = {"extra_outputs": ["coarse", "squares"], "outputs": ["map", "coarse", "squares"]}
"""Settings of a network of maps with 3, 3 and 6 channels; the second one has larger patches."""


def write_network(
    path,
    *,
    patch=(4, 4),
    layout="map",
    leading=(),
    n_patches=-1,
    factor=1.0,
    external=None,
    shape=("batch", 3, "height", "width"),
    input_type=None,
    extra_outputs=(),
    **description,
):
    """Write a network and its description; return the path. Skip the test without onnx.

    Parameters
    ----------
    patch : height and width of a patch in pixels.
    layout : "map", "tokens", or "vector" for an output of the wrong shape.
    leading : tokens of three numbers before the patches.
    n_patches : number of patches in the layout of tokens; -1: as many as there are.
    factor : of all features.
    external : name of the file that the factor is in; None: the ONNX file.
    shape, input_type : of the input; None: float32.
    extra_outputs : names of further outputs; "coarse" has the means of 2 × 2 patches of a map, and
        "squares" the map and its square.
    description : entries that differ from `DESCRIPTION`; None leaves one out.
    """
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto
    input_type = TensorProto.FLOAT if input_type is None else input_type
    tensors = [numpy_helper.from_array(np.array([factor], np.float32), "factor")]
    if external is not None:
        move_out(tensors[0], external)
    cast = helper.make_node("Cast", ["image"], ["levels"], to=TensorProto.FLOAT)
    pool = helper.make_node(
        "AveragePool", ["levels"], ["pooled"], kernel_shape=patch, strides=patch
    )
    nodes = [cast, pool, helper.make_node("Mul", ["pooled", "factor"], ["map"])]
    if layout == "vector":
        nodes.append(helper.make_node("Flatten", ["map"], ["vector"]))
    if layout == "tokens":
        tensors.append(numpy_helper.from_array(np.array([1, 3, n_patches]), "rows"))
        tensors.append(
            numpy_helper.from_array(np.array(leading, np.float32).reshape(1, -1, 3), "class_tokens")
        )
        nodes.append(helper.make_node("Reshape", ["map", "rows"], ["flat"]))
        nodes.append(helper.make_node("Transpose", ["flat"], ["patches"], perm=[0, 2, 1]))
        nodes.append(helper.make_node("Concat", ["class_tokens", "patches"], ["tokens"], axis=1))
    coarse = {"kernel_shape": (2, 2), "strides": (2, 2)}
    for name in extra_outputs:
        if name == "squares":
            nodes.append(helper.make_node("Mul", [layout, layout], ["square"]))
            nodes.append(helper.make_node("Concat", [layout, "square"], [name], axis=1))
        elif name == "coarse":
            nodes.append(helper.make_node("AveragePool", [layout], [name], **coarse))
        else:
            nodes.append(helper.make_node("Identity", [layout], [name]))
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in (layout, *extra_outputs)
    ]
    image = helper.make_tensor_value_info("image", input_type, shape)
    graph = helper.make_graph(nodes, "tiny", [image], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    if external is not None:
        (path.parent / external).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / external).write_bytes(np.array([factor], "<f4").tobytes())
    values = {**DESCRIPTION, **description}
    kept = {key: value for key, value in values.items() if value is not None}
    path.with_suffix(".json").write_text(json.dumps(kept))
    return path


def move_out(tensor, name):
    """Let a tensor refer to a file instead of holding its values."""
    tensor.ClearField("raw_data")
    tensor.data_location = 1  # EXTERNAL
    tensor.external_data.add(key="location", value=str(name))


def install_network(library, monkeypatch, *, name="tiny", **settings):
    """Write a network into a library, which is used from then on; return its name."""
    monkeypatch.setenv("SUPDOCNADE_NETWORKS", str(library))
    write_network(library / name / f"{name}.onnx", name=name, **settings)
    return name


def empty_library(folder, monkeypatch):
    """Make a folder the library of networks, on a machine without packages of weights."""
    monkeypatch.setenv("SUPDOCNADE_NETWORKS", str(folder))
    monkeypatch.setattr(network_library, "find_weights", lambda name: None)
    return folder


def mean_colors(pixels, patch=(4, 4)):
    """Return the mean colours of patches, (rows · columns, 3), of levels scaled by default."""
    rows, columns = np.array(pixels.shape[:2]) // patch
    cells = ((pixels - 127.0) / 128).reshape(rows, patch[0], columns, patch[1], 3)
    return cells.mean(axis=(1, 3)).reshape(-1, 3).astype(np.float32)
