"""Export estimators as ONNX models: `pip install onnx onnxscript`, and skl2onnx for Pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import torch

from mgce import estimators
from mgce.estimators.base import RobustClassifier

# Of all estimators of this package: skl2onnx is told how to convert each.
ESTIMATORS = [value for name in estimators.__all__ if isinstance(value := getattr(estimators, name), type)]
OPSET = 18  # the first whose reductions take the axes as an input, which is how PyTorch writes them
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def to_onnx(estimator: RobustClassifier, output: str = "minimax") -> onnx.ModelProto:
    r"""Export a fitted estimator as an ONNX model that maps features "X" to class "probabilities", both float32.

    .. math:: x \mapsto h_\beta(f(x))

    "X" has shape (n, d) for n rows and d features, "probabilities" (n, k) for k classes. The model computes in float32,
    the estimator in float64. At beta = 1, the worst-case probabilities jump where a class gets a positive probability;
    near beta = 1 they nearly jump. At such points the model's worst-case probabilities can differ from the estimator's.

    Args:
        estimator: fitted, of :mod:`mgce.estimators`.
        output: `"minimax"` for the probabilities h of `predict_proba`, or `"worst_case"` for p of `worst_case_proba`.

    Returns:
        The model, for `onnx.save` or `onnxruntime.InferenceSession(model.SerializeToString())`.

    Raises:
        ValueError: if `output` is neither of the two.
        TypeError: if the margins come from another library, as in `to_torch`.
        NotFittedError: if the estimator is not fitted.

    Reference: paper, equations (14) and (15).
    """
    module = estimator.to_torch(output).float().eval()
    rows = torch.zeros(2, estimator.n_features_in_)
    program = torch.onnx.export(
        module,
        (rows,),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("n")},),
        input_names=["X"],
        output_names=["probabilities"],
        opset_version=OPSET,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    _without_notes(model)
    return model


def _without_notes(part: Any) -> None:
    """Remove notes: PyTorch notes for each node the lines of code that made it, with paths of this machine."""
    for name in ("metadata_props", "doc_string"):
        if name in part.DESCRIPTOR.fields_by_name:
            part.ClearField(name)
    for field, value in part.ListFields():
        if field.message_type is not None:
            for inner in value if isinstance(value, Sequence) else [value]:
                _without_notes(inner)


def register() -> None:
    r"""Register the estimators of this package with skl2onnx, which can then convert pipelines that contain them.

    .. math:: x \mapsto \big(\arg\max_y h_y, h\big)

    Raises:
        ImportError: if skl2onnx is not installed.
    """
    from skl2onnx import update_registered_converter

    for estimator in ESTIMATORS:
        update_registered_converter(estimator, f"Mgce{estimator.__name__}", _set_shapes, _convert, options=OPTIONS)


def _set_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    classes, n = operator.raw_operator.classes_, operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = (Int64TensorType if classes.dtype.kind in "iub" else StringTensorType)([n])
    operator.outputs[1].type = FloatTensorType([n, len(classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Copy the graph that PyTorch exports into the graph that skl2onnx builds, under names not used before."""
    estimator = operator.raw_operator
    graph = to_onnx(estimator).graph
    label, probs = (str(output.full_name) for output in operator.outputs)
    names: dict[str, str] = {"": "", graph.input[0].name: operator.inputs[0].full_name, graph.output[0].name: probs}

    def renamed(name: str) -> str:
        if name not in names:
            names[name] = str(scope.get_unique_variable_name(name))
        return names[name]

    for initializer in graph.initializer:
        initializer.name = renamed(initializer.name)
        container.initializers.append(initializer)
    for node in graph.node:
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
        node.name = scope.get_unique_operator_name(node.op_type)
        container.nodes.append(node)
        container.node_domain_version_pair_sets.add((node.domain, OPSET))
    _add_labels(scope, container, estimator.classes_, probs, label)


def _add_labels(scope: Any, container: Any, classes: Any, probs: str, label: str) -> None:
    """Add nodes to the graph that output the label of the largest probability."""
    values, index = scope.get_unique_variable_name("classes"), scope.get_unique_variable_name("index")
    if classes.dtype.kind in "iub":
        container.add_initializer(values, onnx.TensorProto.INT64, [len(classes)], [int(value) for value in classes])
    else:
        strings = [str(value).encode() for value in classes]
        container.add_initializer(values, onnx.TensorProto.STRING, [len(classes)], strings)
    name = scope.get_unique_operator_name
    container.add_node("ArgMax", [probs], [index], name=name("ArgMax"), axis=1, keepdims=0, op_version=13)
    container.add_node("Gather", [values, index], [label], name=name("Gather"), op_version=13)
