"""The link and the estimators as graphs, run without PyTorch's eager mode."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mgce
from mgce import MGCEClassifier
from mgce.estimators import (
    LabelCorrectionClassifier,
    MGCEForestClassifier,
)
from mgce.losses import MinimaxLink

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
# About PyTorch's own exporter.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore::DeprecationWarning")


def forest():
    return MGCEForestClassifier(n_estimators=5, splitter="best", min_samples_leaf=3, random_state=0)


def run(model, rows):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: rows.astype(np.float32)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, output",
    [
        (MGCEClassifier, "minimax"),
        (MGCEClassifier, "worst_case"),
        (lambda: LabelCorrectionClassifier(n_estimators=5, n_components=10, random_state=0), "minimax"),
        (forest, "worst_case"),
    ],
)
def test_onnxruntime_gives_the_probabilities_of_the_estimator(make, output):
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    from mgce.integrations.onnx import to_onnx

    clf = make().fit(X, Y)
    (got,) = run(to_onnx(clf, output), X[:7])  # another number of rows than it was exported with
    want = clf.predict_proba(X[:7]) if output == "minimax" else clf.worst_case_proba(X[:7])
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels, make, scales",
    # A scaler of float32 would round a row across a threshold of a tree.
    [(Y, MGCEClassifier, True), (NAMES[Y], MGCEClassifier, True), (NAMES[Y], forest, False)],
)
def test_skl2onnx_converts_a_pipeline(labels, make, scales):
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType

    from mgce.integrations.onnx import register

    register()
    pipe = make_pipeline(StandardScaler(with_mean=scales, with_std=scales), make()).fit(X, labels)
    model = skl2onnx.convert_sklearn(
        pipe,
        "pipeline",
        [("X", FloatTensorType([None, 4]))],
        target_opset=20,
        options={id(pipe[-1]): {"zipmap": False, "nocl": False}},
    )
    label, probs = run(model, X)
    np.testing.assert_allclose(probs, pipe.predict_proba(X), atol=1e-4)
    assert (label == pipe.predict(X)).all()


@pytest.mark.slow
def test_the_link_compiles_ahead_of_time(tmp_path):
    """torch.export to a shared library that needs no Python."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), MinimaxLink(1.4))
    rows = {0: torch.export.Dim("n", min=2, max=100)}
    program = torch.export.export(module, (torch.randn(8, 4),), dynamic_shapes=(rows,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "link.pt2"))
    x = 3 * torch.randn(5, 4)
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x), module(x))


@pytest.mark.slow
def test_a_model_names_no_file_of_the_machine_that_exported_it():
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    from mgce.integrations.onnx import to_onnx

    clf = forest().fit(X, Y)
    content = to_onnx(clf).SerializeToString()
    folders = {str(path) for path in (Path(mgce.__file__).parent, Path(torch.__file__).parent, Path.cwd(), Path.home())}
    assert not [folder for folder in folders if folder.encode() in content]
    assert b"File " not in content and b".py" not in content
    assert len(to_onnx(MGCEClassifier().fit(X, Y)).SerializeToString()) < 60_000
