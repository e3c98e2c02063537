"""Everything in the package that reads files of others, each with small good files to begin from."""

from __future__ import annotations

import gzip
import json
import lzma
import struct
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Reader:
    """A reader to test: its file name, good files, and how one is read and used; `setup` makes further files."""

    file: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]
    setup: Callable[[Path], None] = lambda folder: None


def _bytes_of(write: Callable[[Path], Any], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


@cache
def _frame() -> Any:
    import pandas as pd

    x = RNG.normal(size=40).round(2)
    kind = RNG.choice(["a", "b", "c"], 40)
    return pd.DataFrame({"id": range(40), "x": x, "kind": kind, "flag": x > 1, "y": np.where(x > 0, "yes", "no")})


@cache
def _models() -> list[bytes]:
    from sklearn.pipeline import Pipeline

    from mgce.desk.columns.kinds import Columns
    from mgce.desk.files.tables import preprocessor
    from mgce.desk.tables.model import TableModel, row_prints
    from mgce.estimators import LabelCorrectionClassifier, MGCEClassifier

    frame = _frame()
    columns = Columns.of(frame, "y", "id")
    selected, labels = columns.select(frame), columns.labels(frame)
    contents = []
    correction = LabelCorrectionClassifier(n_estimators=2, n_components=3, random_state=0)
    for classifier in (MGCEClassifier(), correction, _forest()):
        pipeline = Pipeline([("columns", preprocessor(selected)), ("classifier", classifier)])
        pipeline.fit(selected, labels.to_numpy(dtype=str))
        contents.append(TableModel(pipeline, columns, np.sort(row_prints(selected, labels))).to_bytes())
    return [*contents, _model_of_text(), _model_of_embeddings()]


def _model_of_embeddings() -> bytes:
    """Return a model of a column of embeddings, which names their encoder."""
    from sklearn.pipeline import Pipeline

    from mgce.desk.columns.kinds import Columns
    from mgce.desk.files.table_files import accounted
    from mgce.desk.tables.model import TableModel, row_prints
    from mgce.desk.tables.text_features import transformer
    from mgce.estimators import MGCEEmbeddingClassifier
    from mgce.features.feature_files import Card

    frame = accounted(_frame().assign(vector=RNG.normal(size=(40, 3)).tolist()))[0]
    columns = Columns.of(frame, "y", "id")
    selected, labels = columns.select(frame), columns.labels(frame)
    fitted = transformer(selected, columns.kinds, 0)
    pipeline = Pipeline([("columns", fitted), ("classifier", MGCEEmbeddingClassifier(random_state=0))])
    pipeline.fit(selected, labels.to_numpy(dtype=str))
    card = Card("tiny:net", "texts", "ab" * 32, "none", 3)
    return TableModel(pipeline, columns, np.sort(row_prints(selected, labels)), encoder=card).to_bytes()


@cache
def _features() -> list[bytes]:
    """Return files of features, the first as `mgce embed` writes it."""
    from mgce.features.feature_files import Card, write_features

    X, card = RNG.normal(size=(5, 3)).astype(np.float32), Card("tiny:net", "texts", "ab" * 32, "none", 3)
    ours = _bytes_of(lambda path: write_features(path, [X], "float32", [*"abcde"], card, ""), "f.npz")
    return [ours, _bytes_of(lambda path: np.savez_compressed(path, x=X), "f.npz")]


def _read_features(path: Path) -> float:
    from mgce.features.feature_files import read_features

    return float(np.asarray(read_features(path).values).astype(float).sum())


def _model_of_text() -> bytes:
    """Return a model of a column of text beside one of numbers."""
    from sklearn.pipeline import Pipeline

    from mgce.desk.columns.kinds import Columns
    from mgce.desk.tables.model import TableModel, row_prints
    from mgce.desk.tables.text_features import transformer
    from mgce.estimators import MGCEClassifier

    frame = _frame()[["x", "kind", "y"]]
    columns = Columns.of(frame, "y", text=["kind"])
    selected, labels = columns.select(frame), columns.labels(frame)
    fitted = transformer(selected, columns.kinds, 0)
    pipeline = Pipeline([("columns", fitted), ("classifier", MGCEClassifier())])
    pipeline.fit(selected, labels.to_numpy(dtype=str))
    return TableModel(pipeline, columns, np.sort(row_prints(selected, labels))).to_bytes()


def _forest() -> Any:
    """Return a small model of trees, which compiled code walks down."""
    from mgce.estimators import MGCEForestClassifier

    return MGCEForestClassifier(n_estimators=3, splitter="best", min_samples_leaf=3, random_state=0)


@cache
def _estimators() -> list[bytes]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from mgce.estimators import MGCEClassifier, save

    X, y = RNG.normal(size=(30, 2)), np.arange(30) % 3
    models = [
        MGCEClassifier(random_state=np.random.RandomState(0)).fit(X, y),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
        MGCEClassifier().partial_fit(X, y, classes=[0, 1, 2]),
        _forest().fit(X, y),
    ]
    return [_bytes_of(lambda path, model=model: save(model, path), "m.mgce") for model in models]  # type: ignore[misc]


def _use_model(path: Path) -> Any:
    import pandas as pd

    from mgce.desk.files.vectors import vectors
    from mgce.desk.tables.model import TableModel

    model = TableModel.load(path)
    frame = _frame()
    if model.columns.width:
        zeros = vectors(np.zeros((len(frame), model.columns.width)))
        frame = frame.assign(**{model.columns.embedding: pd.Series(zeros, dtype=object)})
    selected = model.columns.select(frame)
    try:
        return model.predict(selected), model.unseen(selected)
    except ValueError as error:  # scikit-learn's own sentence on what the numbers of the model make of a table
        if "\n" in str(error):
            raise
        return None


def _use_estimator(path: Path) -> Any:
    from mgce.estimators import load

    estimator = load(path)
    with suppress(Exception):  # what a stranger's estimator answers is another matter; it may not end the process
        return estimator.predict(RNG.normal(size=(3, 2)))


def _csv() -> list[bytes]:
    formats = (
        'sep=;\n"when\n";n;y\n2024-05-31T12:00:00.5+02:00;"1,234";True\n9999-12-31;-999;no\n'
        + "2024-W22-5;2;True\n" * 9
    )
    return [
        _frame().to_csv(index=False).encode(),
        b"x,y\n1,a\n2,b\n" * 3,
        '"a,b",y\n"1,5",ü\n'.encode(),
        formats.encode(),
    ]


def _parquet() -> list[bytes]:
    frame = _frame()
    return [
        _bytes_of(frame.to_parquet, "t.parquet"),
        _bytes_of(lambda path: frame.astype({"kind": "category"}).set_index("id").to_parquet(path), "t.parquet"),
        _bytes_of(lambda path: frame.to_parquet(path, compression="gzip"), "t.parquet"),
    ]


def _read_frame(path: Path) -> Any:
    from mgce.desk.columns.kinds import Columns
    from mgce.desk.files.table_files import read_frame

    frame = read_frame(path, "table")
    return Columns.of(frame, frame.columns[-1]).select(frame)


def _arrow() -> list[bytes]:
    import pyarrow.feather as feather

    kinds = ("uncompressed", "lz4", "zstd")
    return [
        _bytes_of(lambda path, kind=kind: feather.write_feather(_frame(), str(path), compression=kind), "t.feather")  # type: ignore[misc]
        for kind in kinds
    ]


def _json_lines() -> list[bytes]:
    return [_frame().to_json(orient="records", lines=True).encode(), b'{"a": [1, {}], "b": null}\n\n{"a": 1e3}\n']


def _excel() -> list[bytes]:
    return [_bytes_of(lambda path: _frame().to_excel(path, index=False), "t.xlsx")]


def _idx() -> list[bytes]:
    def file(array: np.ndarray) -> bytes:
        head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        return gzip.compress(head + array.tobytes(), mtime=0)

    return [file(RNG.integers(256, size=(3, 4, 5), dtype=np.uint8)), file(np.arange(9, dtype=np.uint8))]


def _read_idx(path: Path) -> Any:
    from mgce_lab.data.idx import read_idx

    return read_idx(path)


def _xz() -> list[bytes]:
    return [lzma.compress(bytes(3073) * rows, preset=0) for rows in (1, 3)]


def _read_xz(path: Path) -> Any:
    from mgce_lab.data import cifar
    from mgce_lab.data.sources import DataSource

    content = cifar._read(DataSource(path.parent), "data_batch_1.bin", cifar.CIFAR10)[1]
    return cifar.read_records(content, path)


def _labels() -> list[bytes]:
    import torch

    labels = {"clean_label": np.arange(9), "worse_label": np.arange(9)[::-1].copy()}
    return [_bytes_of(lambda path: torch.save(labels, path), "labels.pt")]


def _read_labels(path: Path) -> Any:
    from mgce_lab.data.cifar_n import read_labels

    return read_labels(path)


def _images() -> list[bytes]:
    from PIL import Image

    pixels = RNG.integers(256, size=(8, 8, 3), dtype=np.uint8)
    kinds = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
    return [_bytes_of(lambda p, kind=kind: Image.fromarray(pixels).save(p, kind), "i") for kind in kinds]  # type: ignore[misc]


def _read_image(path: Path) -> Any:
    from mgce.desk.files.images import ImageFiles

    return ImageFiles((path,), np.zeros(1, np.int64))[0]


def _gz_table() -> list[bytes]:
    return [gzip.compress(b"\n".join(b",".join([b"%d" % (i + j) for j in range(55)]) for i in range(5)), mtime=0)]


def _read_gz_table(path: Path) -> Any:
    from mgce_lab.data import uci

    return uci._read(path, uci.COVERTYPE_COLUMNS, dtype="int16")


@cache
def _runs() -> dict[str, dict[str, bytes]]:
    """Return the files of finished runs as they lie in `runs/` and packed."""
    from mgce_lab.engine.specification import document
    from mgce_lab.engine.store import Run, Runs
    from mgce_lab.paper.tabular import TabularRun

    measures = dict.fromkeys(("accuracy", "ece_h", "ece_p", "sce_h", "sce_p", "validation_accuracy"), 0.5)
    curves = {"test_accuracy_by_epoch": [0.5, 0.6], "objective_by_epoch": [1.0, 0.9]}
    with tempfile.TemporaryDirectory() as name:
        store = Runs(Path(name))
        for noise in (0.0, 0.4):
            run = TabularRun("wine", noise, (0,), (("mgce", 1.4),), epochs=2)
            record = {"method": "mgce", "beta": 1.4, "noise_rate": noise, "seed": 0, "best_epoch": 1}
            store.write(Run(document(run), [{**record, **measures, **curves}], {"mgce": "0.1.0", "seconds": 1.5}))
        loose = {str(path.relative_to(name)): path.read_bytes() for path in Path(name).rglob("*") if path.is_file()}
        store.pack()
        packed = {path.name: path.read_bytes() for path in Path(name).iterdir() if path.is_file()}
    return {"loose": loose, "packed": packed}


def _record_reader(kind: str, name: str) -> Reader:
    def files() -> dict[str, bytes]:
        return _runs()[kind]

    def file() -> str:
        return min(path for path in files() if path.endswith(name))

    def setup(folder: Path) -> None:
        for path, content in files().items():
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_bytes(content)

    def read(path: Path) -> Any:
        from mgce_lab.engine.consistency import check_one_setting
        from mgce_lab.engine.report import facts
        from mgce_lab.engine.store import Runs
        from mgce_lab.paper.items import PAPER

        folder = path.parent if kind == "packed" else path.parents[2]
        runs = list(Runs(folder).read().values())
        check_one_setting([run.specification for run in runs], PAPER.by_dataset)
        return PAPER.items["table3"].render(runs), facts(runs)

    return Reader(file(), lambda: [files()[file()]], read, setup)


def _reasons(path: Path) -> Any:
    from mgce_lab.engine.report import read_reasons

    return read_reasons(path.parent)


@cache
def _settings() -> tuple[Any, Any]:
    from mgce_lab.images.image_settings import ImageSettings
    from mgce_lab.training.member_losses import MemberLoss

    return ImageSettings(width=2, crop=8, padding=0), MemberLoss("mgce", 1.4)


def _checkpoints() -> list[bytes]:
    import torch

    from mgce_lab.images.image_classifier import ImageClassifier

    model = ImageClassifier(*_settings(), num_classes=2, mean=torch.zeros(1, 8, 8))
    content = {"state_dict": model.state_dict(), "curves": {"objective": [1.0]}, "specification": {}}
    return [_bytes_of(lambda path: torch.save(content, path), "c.ckpt")]


def _read_checkpoint(path: Path) -> Any:
    from mgce_lab.images.image_classifier import load_classifier

    return load_classifier(path, *_settings(), 2)


def readers() -> dict[str, Reader]:
    """Return all readers by name."""
    warnings.simplefilter("ignore")
    reasons = [json.dumps({"letter/*/gce/*": "a sentence"}).encode()]
    return {
        "model": Reader("m.mgce", _models, _use_model),
        "estimator": Reader("m.mgce", _estimators, _use_estimator),
        "features": Reader("f.npz", _features, _read_features),
        "csv": Reader("t.csv", _csv, _read_frame),
        "parquet": Reader("t.parquet", _parquet, _read_frame),
        "arrow": Reader("t.feather", _arrow, _read_frame),
        "json lines": Reader("t.jsonl", _json_lines, _read_frame),
        **({"excel": Reader("t.xlsx", _excel, _read_frame)} if find_spec("openpyxl") else {}),
        "idx": Reader("i.gz", _idx, _read_idx),
        "xz": Reader("data_batch_1.bin.xz", _xz, _read_xz),
        "labels": Reader("labels.pt", _labels, _read_labels),
        "image": Reader("i", _images, _read_image),
        "gz table": Reader("c.gz", _gz_table, _read_gz_table),
        "record": _record_reader("loose", "records.jsonl"),
        "specification": _record_reader("loose", "specification.json"),
        "packed records": _record_reader("packed", "records.jsonl"),
        "packed machines": _record_reader("packed", "machines.jsonl"),
        "reasons": Reader("reasons.json", lambda: reasons, _reasons),
        "checkpoint": Reader("c.ckpt", _checkpoints, _read_checkpoint),
    }
