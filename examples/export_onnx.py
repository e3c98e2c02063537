"""
A Pipeline in one ONNX file
===========================

A Pipeline in one ONNX file, checked in onnxruntime: scaler, linear classifier and link.

Runs in half a minute: `pip install onnx onnxscript onnxruntime skl2onnx && python examples/export_onnx.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier
from mgce.integrations.onnx import register

X, y = load_iris(return_X_y=True)
model = make_pipeline(StandardScaler(), MGCEClassifier(beta=1.4)).fit(X, y)
register()
options = {id(model[-1]): {"zipmap": False}}  # probabilities as an array
graph = convert_sklearn(model, "iris", [("X", FloatTensorType([None, 4]))], target_opset=20, options=options)
session = onnxruntime.InferenceSession(graph.SerializeToString())
label, probs = session.run(None, {"X": X.astype(np.float32)})
print(f"labels that differ: {(label != model.predict(X)).sum()}")
print(f"largest difference of a probability: {np.abs(probs - model.predict_proba(X)).max():.0e}")
for column, name in enumerate(("setosa", "versicolor", "virginica")):
    plt.plot(model.predict_proba(X)[:, column], probs[:, column], "o", alpha=0.5, label=name)
plt.xlabel("probability in scikit-learn")
plt.ylabel("probability in onnxruntime")
plt.legend(frameon=False)
plt.show()
