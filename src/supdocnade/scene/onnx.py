"""Export of a fitted model to ONNX, from word counts on, for programs without Python.

Input `counts`, (photographs, words in regions) float32: word counts as of `BagOfVisualWords`. A
model with global features has a second input `global_features`, (photographs, features) float32.
Outputs: `topics` (photographs, topics) float32; with classes `probabilities` (photographs, classes)
float64; with tags `tag_log_proba`, `tag_scores` and `tag_probabilities` (photographs, tags)
float64: log p(tag | photograph), the scores that rank tags, and the probabilities that they are
present. Without logistic outputs the first two are renormalised over all tags. The metadata holds
the names of classes and tags as JSON.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supdocnade.errors import InvalidArgument, install_command
from supdocnade.scene.calibration import logit
from supdocnade.scene.prediction import FittedScene
from supdocnade.storage import write_atomically

OPSET, IR_VERSION = 18, 9
_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}


def export_onnx(fitted: FittedScene, path: Path) -> None:
    """Write a fitted model as an ONNX file.

    Raises
    ------
    InvalidArgument : the extra `onnx` is not installed.
    """
    try:
        import onnx  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InvalidArgument(f"exporting needs an extra: {install_command('onnx')}.") from error
    graph = _Graph(onnx)
    topics = _topics(graph, fitted)
    outputs: list[tuple[str, str, Any, int]] = [
        (topics, "topics", np.float32, fitted.network.config.n_topics)
    ]
    wide = graph.add("Cast", topics, to=onnx.TensorProto.DOUBLE)
    if fitted.classes:
        scores = _class_scores(graph, fitted, wide)
        scaled = graph.add("Div", scores, graph.constant(np.array(fitted.choices.temperature)))
        several = fitted.several_labels
        probability = (
            graph.add("Sigmoid", scaled) if several else graph.add("Softmax", scaled, axis=1)
        )
        outputs.append((probability, "probabilities", np.float64, len(fitted.classes)))
    if fitted.tag_names:
        if fitted.has_logistic_tags:
            scores = _tag_log_odds(graph, fitted, wide)
            log_p = graph.add("Neg", graph.add("Softplus", graph.add("Neg", scores)))
        else:
            scores = log_p = _tag_log_proba(graph, fitted, wide)
        if fitted.class_tag_share_CA is not None:
            mixed = graph.add("Log", graph.product(probability, fitted.class_tag_share_CA))
            weight = graph.constant(np.array(fitted.choices.class_tag_weight))
            scores = graph.add("Add", scores, graph.add("Mul", mixed, weight))
            if not fitted.has_logistic_tags:
                scores = graph.add("LogSoftmax", scores, axis=1)
        named = {
            "tag_log_proba": log_p,
            "tag_scores": scores,
            "tag_probabilities": _presence(graph, fitted, scores),
        }
        outputs += [(n, name, np.float64, len(fitted.tag_names)) for name, n in named.items()]
    inputs = {"counts": fitted.encoder.n_features}
    if fitted.network.config.n_global_features:
        inputs["global_features"] = fitted.network.config.n_global_features
    model = graph.model(inputs, outputs)
    names = {"classes": list(fitted.classes), "tags": list(fitted.tag_names)}
    onnx.helper.set_model_props(model, {k: json.dumps(v) for k, v in names.items()})
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, model.SerializeToString())


class _Graph:
    """Nodes and constants of a graph, numbered as they are added."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: NDArray[Any]) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def product(self, left: str, matrix: NDArray[Any]) -> str:
        return self.add("MatMul", left, self.constant(matrix))

    def model(self, inputs: dict[str, int], outputs: list[tuple[str, str, Any, int]]) -> Any:
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        kinds = {np.float32: proto.FLOAT, np.float64: proto.DOUBLE}
        input_infos = [
            helper.make_tensor_value_info(name, proto.FLOAT, ["photographs", width])
            for name, width in inputs.items()
        ]
        for inner, name, _, _ in outputs:
            self.nodes.append(helper.make_node("Identity", [inner], [name]))
        infos = [
            helper.make_tensor_value_info(name, kinds[kind], ["photographs", width])
            for _, name, kind, width in outputs
        ]
        graph = helper.make_graph(self.nodes, "supdocnade", input_infos, infos, self.constants)
        return helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="supdocnade",
        )


def _topics(graph: _Graph, fitted: FittedScene) -> str:
    """Add h = g(c + G f + Σ_k x_k W[v_k]) of the damped counts and the global features f."""
    network = fitted.network
    counts = "counts"
    if fitted.settings.damping is not None:
        roots = graph.add("Sqrt", counts)
        scale = graph.constant(np.array(fitted.settings.damping, np.float32))
        counts = graph.add("Round", graph.add("Mul", roots, scale))
    W_KH = network["word_embedding"][: network.config.n_visual_words]
    bias = graph.constant(network["hidden_bias"])
    total = graph.add("Add", graph.product(counts, W_KH), bias)
    if network.config.n_global_features:
        total = graph.add(
            "Add", total, graph.product("global_features", network["global_weight"].T)
        )
    return graph.add(_ACTIVATIONS[str(network.config.activation)], total)


def _class_scores(graph: _Graph, fitted: FittedScene, hidden: str) -> str:
    svm = fitted.svm
    if svm is None:
        U_CH = fitted.network["label_weight"].astype(np.float64)
        d_C = fitted.network["label_bias"].astype(np.float64)
        return graph.add("Add", graph.product(hidden, U_CH.T), graph.constant(d_C))
    centred = graph.add("Sub", hidden, graph.constant(svm.mean_H))
    scaled = graph.add("Div", centred, graph.constant(svm.scale_H))
    # |z - s|² = |z|² + |s|² - 2 z · s
    own = graph.add(
        "ReduceSum", graph.add("Mul", scaled, scaled), graph.constant(np.array([1])), keepdims=1
    )
    squares = graph.add("Add", own, graph.constant(np.square(svm.support_SH).sum(axis=1)))
    distances = graph.add("Add", squares, graph.product(scaled, -2 * svm.support_SH.T))
    kernel = graph.add("Exp", graph.add("Mul", distances, graph.constant(np.array(-svm.gamma))))
    values = graph.product(kernel, svm.coefficient_CS.T)
    return graph.add("Add", values, graph.constant(svm.intercept_C))


def _tag_log_odds(graph: _Graph, fitted: FittedScene, hidden: str) -> str:
    """Add the logistic outputs before their sigmoid, T h + e."""
    T_AH, e_A = (fitted.network[name].astype(np.float64) for name in ("tag_weight", "tag_bias"))
    return graph.add("Add", graph.product(hidden, T_AH.T), graph.constant(e_A))


def _tag_log_proba(graph: _Graph, fitted: FittedScene, hidden: str) -> str:
    """Add log p(tag | photograph), renormalised over all tags."""
    network = fitted.network
    first, last = network.config.n_visual_words, network.config.n_words
    V_TH, b_T = (network[name].astype(np.float64) for name in ("node_weight", "node_bias"))
    if network.tree is not None:
        nodes_KL, signs_KL = network.tree.paths
        nodes, signs = nodes_KL[first:last], signs_KL[first:last]
        used = np.unique(nodes[signs != 0])
        z = graph.add("Add", graph.product(hidden, V_TH[used].T), graph.constant(b_T[used]))
        # log p(left) = -softplus(z) and log p(right) = -softplus(-z), added up along paths.
        both = graph.add(
            "Concat", graph.add("Softplus", z), graph.add("Softplus", graph.add("Neg", z)), axis=1
        )
        steps = np.zeros((2 * len(used), last - first))
        tags, step = np.nonzero(signs)
        places = np.searchsorted(used, nodes[tags, step])
        steps[places + np.where(signs[tags, step] > 0, len(used), 0), tags] = -1
        log_p = graph.product(both, steps)
    else:
        rows = slice(first, last)
        log_p = graph.add("Add", graph.product(hidden, V_TH[rows].T), graph.constant(b_T[rows]))
    return graph.add("LogSoftmax", log_p, axis=1)


def _presence(graph: _Graph, fitted: FittedScene, scores: str) -> str:
    tags = fitted.choices.tags
    if tags is None:
        return graph.add("Sigmoid" if fitted.has_logistic_tags else "Exp", scores)
    offset_A = tags.prior * logit(fitted.tag_frequency_A) + tags.offset
    sloped = graph.add("Mul", scores, graph.constant(np.array(tags.slope)))
    return graph.add("Sigmoid", graph.add("Add", sloped, graph.constant(offset_A)))
