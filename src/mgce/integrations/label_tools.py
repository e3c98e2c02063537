"""Exchange labels with Label Studio, Argilla, doccano, CVAT and COCO files: rows, suggestions and decisions."""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import pandas as pd

from mgce._files import write_files
from mgce._messages import check_choice, expected
from mgce._text import spreadsheet_cell, spreadsheet_text

AGENT = "mgce"  # who made a suggestion
# The columns of a file of decisions, as the page of `mgce review` saves it.
DECISION = (
    *("key", "row", "line", "given", "decision", "label", "shown_as", "draw", "draw_probability"),
    *("suggested", "note"),
)
Task = Any  # a dict, or an element of CVAT's XML


def rows_of_tasks(document: Any, tool: str, *, question: str | None = None) -> pd.DataFrame:
    """Return a row for each label of each task; a task without labels gets one row without a label.

    Args:
        document: the export of a tool, as parsed JSON: a list of tasks or records, of the lines of a JSONL file, or the
            object of a COCO file. Of CVAT, the root of "CVAT for images" as `xml.etree.ElementTree` parses it.
        tool: `"label-studio"`, `"argilla"`, `"doccano"`, `"cvat"` or `"coco"`.
        question: the name of the question, if tasks have several: `from_name` in Label Studio.

    Returns:
        The columns `task`, `annotator` and `label`, and each text or number of the task. With one label a task,
        this is a table for `mgce fit --target label --id task`. With several, `pivot` makes the matrix for
        :func:`mgce.find_consensus`.

    Raises:
        ValueError: if an argument is not as described, or one annotator gave a task several labels.

    Example:
        >>> tasks = [{"id": 7, "text": "Great price.", "label": ["positive"]}]
        >>> rows_of_tasks(tasks, "doccano").to_dict("records")
        [{'task': '7', 'annotator': '', 'label': 'positive', 'text': 'Great price.'}]
    """
    known = _tool(tool)
    rows: list[dict[str, Any]] = []
    for name, task in _named(document, tool):
        answers: list[tuple[str, str | None]] = [*known.labels(task, question)] or [("", None)]
        content = _plain(known.content(task))
        rows.extend({"task": name, "annotator": who, "label": label, **content} for who, label in answers)
    return pd.DataFrame(rows, columns=None if rows else ["task", "annotator", "label"])


def with_suggestions(
    document: Any, tool: str, suspects: Path, *, question: str | None = None, most: int | None = None
) -> Any:
    """Return a document in which each suspect label has a suggestion; all other fields are as they were.

    Label Studio gets a prediction, and Argilla a suggestion. doccano, CVAT and COCO files have neither: there the
    suggested label takes the place of the given one, which a field or an attribute `mgce` keeps.

    Args:
        document: as for :func:`rows_of_tasks`.
        tool: the name of the tool.
        question: the name of the question, if tasks have several.
        suspects: the file of suspects that `mgce fit` wrote for this table, with the column `task` as its `--id`.
        most: return only so many tasks, the most suspect first; None for all, in their order.

    Raises:
        ValueError: if an argument is not as described, or a task already has the suggestion of another model.
    """
    known, document = _tool(tool), copy.deepcopy(document)
    judged = _suspects(suspects)
    tasks = dict(_named(document, tool))
    wrong = [name for name in judged if name not in tasks]
    if wrong:
        raise ValueError(expected("suspects", "of the tasks of this document", f"the task {wrong[0]}"))
    listed = [name for name, one in judged.items() if one["suggested"] != one["given"]]
    pattern = next(known.patterns(tasks.values(), question), None)
    for name in listed[:most]:
        known.suggest(tasks[name], pattern, judged[name]["suggested"], float(judged[name]["p_suggested"]))
    return document if most is None else known.only(document, [tasks[name] for name in listed[:most]])


def without_suggestions(document: Any, tool: str) -> Any:
    """Return a document without the suggestions of :func:`with_suggestions`; what a tool has added since remains.

    Args:
        document: as for :func:`rows_of_tasks`.
        tool: the name of the tool.
    """
    known, document = _tool(tool), copy.deepcopy(document)
    for _, task in _named(document, tool):
        known.retract(task)
    return document


def decisions_of_tasks(
    document: Any, tool: str, suspects: Path, path: Path, *, question: str | None = None, annotator: str | None = None
) -> int:
    """Write the labels that a person gave in a tool as decisions for `mgce fit --checked`.

    Args:
        document: as for :func:`rows_of_tasks`. Export only tasks that a person has looked at: an unchanged label counts
            as a decision to keep it.
        tool: the name of the tool.
        question: the name of the question, if tasks have several.
        suspects: the file of suspects that the suggestions are from.
        path: the file to write, such as `people.decisions.csv`.
        annotator: whose labels count, if there are several.

    Returns:
        The number of decisions. Tasks without a label are left out.

    Raises:
        ValueError: if an argument is not as described, or a task has several labels.
    """
    judged, lines = _suspects(suspects), []
    rows = rows_of_tasks(document, tool, question=question).dropna(subset="label")
    rows = rows if annotator is None else rows[rows["annotator"] == annotator]
    twice = rows["task"][rows["task"].duplicated()]
    if len(twice):
        raise ValueError(expected("annotator", "the one whose labels count", f"several labels of task {twice.iloc[0]}"))
    for name, label in zip(rows["task"], rows["label"], strict=True):
        if name not in judged:
            raise ValueError(expected("document", "of the tasks in the file of suspects", f"the task {name}"))
        one = judged[name]
        decision = {one["suggested"]: "suggestion", one["given"]: "keep"}.get(label, "other")
        cells = {**one, "row": name, "decision": decision, "label": label, "shown_as": "suspect", "note": ""}
        lines.append([spreadsheet_cell(cells[column]) for column in DECISION])
    text = io.StringIO(newline="")
    csv.writer(text).writerows([DECISION, *lines])
    write_files(path.parent, {path.name: text.getvalue().encode()})
    return len(lines)


class _Tool(NamedTuple):
    """The functions that read and change the tasks of a tool."""

    labels: Callable[[Task, str | None], list[tuple[str, str]]]
    content: Callable[[Task], Mapping[str, Any]]
    suggest: Callable[[Task, Any, str, float], None]
    retract: Callable[[Task], None]
    only: Callable[[Any, list[Task]], Any] = lambda document, tasks: tasks
    # What a suggestion takes from the answers of people.
    patterns: Callable[[Any, str | None], Iterator[Any]] = lambda tasks, question: iter(())


def _tool(name: str) -> _Tool:
    check_choice("tool", name, tuple(_TOOLS))
    return _TOOLS[name]


def _named(document: Any, tool: str) -> Iterator[tuple[str, Task]]:
    """Yield the name of each task, its id or else its number, with the task."""
    tasks = _images(document) if tool == "coco" else _image_elements(document) if tool == "cvat" else document
    if not isinstance(tasks, list) or not all(isinstance(task, dict | Element) for task in tasks):
        raise ValueError(expected("document", f"an export of {tool}, parsed", type(document).__name__))
    seen = set()
    for number, task in enumerate(tasks):
        name = str((task["image"] if tool == "coco" else task).get("id", number))
        if name in seen:
            raise ValueError(expected("document", "of tasks with different ids", f"two with {name}"))
        seen.add(name)
        yield name, task


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    taken = ("task", "annotator", "label")
    values = {name: value for name, value in content.items() if isinstance(value, str | int | float)}
    return {f"task: {name}" if name in taken else name: value for name, value in values.items()}


def _suspects(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a file of suspects by the name of the example, the most suspect first."""
    # "rank" and the separator, which a spreadsheet may change.
    head = path.read_text("utf-8-sig").replace('"', "", 2)[:5]
    if head not in ("rank,", "rank;", "rank\t"):
        raise ValueError(expected("suspects", "a file of suspects as `mgce fit` writes it", path.name))
    table = pd.read_csv(path, sep=head[4], dtype=str, keep_default_na=False, encoding="utf-8-sig")
    rows = table.map(spreadsheet_text).to_dict("records")
    return {row[table.columns[1]]: {str(name): cell for name, cell in row.items()} for row in rows}


def _one(labels: list[Any], what: object) -> str:
    if len(labels) != 1:
        raise ValueError(expected("document", "of tasks with one label of each annotator", f"{labels} in {what}"))
    return str(labels[0])


# Label Studio: annotations of people, with a result for each question.


def _studio_answers(task: Task, question: str | None) -> Iterator[tuple[str, Task]]:
    for annotation in task.get("annotations", ()):
        by = annotation.get("completed_by", "")
        who = str(by.get("email", by.get("id", "")) if isinstance(by, dict) else by)
        answers = [one for one in annotation.get("result", ()) if one.get("type") == "choices"]
        names = {one["from_name"] for one in answers}
        if question is None and len(names) > 1:
            raise ValueError(expected("question", f"one of {', '.join(sorted(names))}", None))
        if not annotation.get("was_cancelled"):
            yield from ((who, one) for one in answers if question in (None, one["from_name"]))


def _studio_labels(task: Task, question: str | None) -> list[tuple[str, str]]:
    answers = _studio_answers(task, question)
    return list({who: (who, _one(one["value"]["choices"], task.get("id"))) for who, one in answers}.values())


def _studio_suggest(task: Task, pattern: Task | None, label: str, score: float) -> None:
    if pattern is None:
        raise ValueError(expected("document", "a document with an answer, which names the question", "none"))
    result = {name: pattern[name] for name in ("from_name", "to_name", "type")}
    prediction = {"model_version": AGENT, "score": score, "result": [{**result, "value": {"choices": [label]}}]}
    if "predictions" not in task:
        prediction[AGENT] = "the first prediction"  # so that retracting it leaves no empty list
    task["predictions"] = [*task.get("predictions", ()), prediction]


def _studio_retract(task: Task) -> None:
    every = task.get("predictions", [])
    others = [one for one in every if one.get("model_version") != AGENT]
    if others or not any(AGENT in one for one in every):
        task.update({"predictions": others} if "predictions" in task else {})
    else:
        del task["predictions"]


# Argilla: responses of users and one suggestion, by question.


def _argilla_question(task: Task, question: str | None) -> str | None:
    names = sorted(task.get("responses") or ())
    if question is None and len(names) > 1:
        raise ValueError(expected("question", f"one of {', '.join(names)}", None))
    return question or (names[0] if names else None)


def _argilla_labels(task: Task, question: str | None) -> list[tuple[str, str]]:
    answers = (task.get("responses") or {}).get(_argilla_question(task, question), ())
    return [(str(one.get("user_id", "")), str(one["value"])) for one in answers]


def _argilla_suggest(task: Task, question: str | None, label: str, score: float) -> None:
    if question is None:
        raise ValueError(expected("question", "the name of a question", None))
    others = task.get("suggestions") or {}
    if others.get(question, {}).get("agent", AGENT) != AGENT:
        raise ValueError(expected("document", "of records without the suggestion of another agent", others[question]))
    task["suggestions"] = {**others, question: {"value": label, "score": score, "agent": AGENT}}


def _argilla_retract(task: Task) -> None:
    for name, one in list((task.get("suggestions") or {}).items()):
        if one.get("agent") == AGENT:
            del task["suggestions"][name]


# doccano: a list of labels, or annotations of users with the names of labels.


def _doccano_labels(task: Task, question: str | None) -> list[tuple[str, str]]:
    if "annotations" in task:
        by: dict[str, list[Any]] = {}
        for one in task["annotations"]:
            by.setdefault(str(one.get("user_name", one.get("user", ""))), []).append(
                one.get("label_name", one["label"])
            )
        return [(who, _one(labels, task.get("id"))) for who, labels in by.items()]
    labels = task.get("label", task.get("labels", []))
    labels = labels if isinstance(labels, list) else [labels]
    return [("", _one(labels, task.get("id")))] if labels else []


def _doccano_suggest(task: Task, pattern: Any, label: str, score: float) -> None:
    field = "labels" if "labels" in task else "label"
    task[AGENT] = {"field": field, "given": task.get(field), "score": score}
    task[field] = [label]


def _doccano_retract(task: Task) -> None:
    if AGENT in task:
        before = task.pop(AGENT)
        del task[before["field"]]
        if before["given"] is not None:
            task[before["field"]] = before["given"]


# COCO: images, categories, and annotations that join them. Many tools write such files.


def _images(document: Any) -> list[Task]:
    if not isinstance(document, dict) or not {"images", "annotations", "categories"} <= set(document):
        raise ValueError(expected("document", "an object with images, annotations and categories", type(document)))
    own: dict[Any, list[Task]] = {image["id"]: [] for image in document["images"]}
    for annotation in document["annotations"]:
        own[annotation["image_id"]].append(annotation)
    categories = document["categories"]
    return [{"image": one, "annotations": own[one["id"]], "categories": categories} for one in document["images"]]


def _coco_labels(task: Task, question: str | None) -> list[tuple[str, str]]:
    names = {one["id"]: one["name"] for one in task["categories"]}
    labels = sorted({names[one["category_id"]] for one in task["annotations"]})
    return [("", _one(labels, task["image"]["id"]))] if labels else []


def _coco_suggest(task: Task, pattern: Any, label: str, score: float) -> None:
    number = {str(one["name"]): one["id"] for one in task["categories"]}.get(label)
    if number is None:
        raise ValueError(expected("suspects", "of the categories of this document", label))
    for one in task["annotations"]:
        one[AGENT] = {"given": one["category_id"], "score": score}
        one["category_id"] = number


def _coco_retract(task: Task) -> None:
    for one in task["annotations"]:
        if AGENT in one:
            one["category_id"] = one.pop(AGENT)["given"]


def _coco_only(document: Task, tasks: list[Task]) -> Task:
    images, annotations = [task["image"] for task in tasks], [one for task in tasks for one in task["annotations"]]
    return {**document, "images": images, "annotations": annotations}


# CVAT: its own XML, the only format in which it exports tags, which are classes of whole images.


def _image_elements(document: Any) -> list[Element]:
    if not isinstance(document, Element) or document.tag != "annotations":
        raise ValueError(expected("document", "the root of CVAT for images", type(document).__name__))
    return document.findall("image")


def _cvat_labels(task: Element, question: str | None) -> list[tuple[str, str]]:
    labels = [tag.attrib["label"] for tag in task.findall("tag")]
    return [("", _one(labels, task.get("id")))] if labels else []


def _cvat_suggest(task: Element, pattern: Any, label: str, score: float) -> None:
    for tag in task.findall("tag"):
        tag.attrib.update({AGENT: tag.attrib["label"], "label": label})


def _cvat_retract(task: Element) -> None:
    for tag in task.findall(f"tag[@{AGENT}]"):
        tag.set("label", tag.attrib.pop(AGENT))


def _cvat_only(document: Element, tasks: list[Element]) -> Element:
    document[:] = [*(part for part in document if part.tag != "image"), *tasks]
    return document


_TOOLS = {
    "label-studio": _Tool(
        _studio_labels,
        lambda task: task["data"],
        _studio_suggest,
        _studio_retract,
        patterns=lambda tasks, question: (one for task in tasks for _, one in _studio_answers(task, question)),
    ),
    "argilla": _Tool(
        _argilla_labels,
        lambda task: task["fields"],
        _argilla_suggest,
        _argilla_retract,
        patterns=lambda tasks, question: filter(None, (_argilla_question(task, question) for task in tasks)),
    ),
    "doccano": _Tool(
        _doccano_labels,
        lambda task: {name: value for name, value in task.items() if name not in ("id", "label", "labels")},
        _doccano_suggest,
        _doccano_retract,
    ),
    "cvat": _Tool(
        _cvat_labels,
        lambda task: {name: value for name, value in task.attrib.items() if name != "id"},
        _cvat_suggest,
        _cvat_retract,
        _cvat_only,
    ),
    "coco": _Tool(
        _coco_labels,
        lambda task: {name: value for name, value in task["image"].items() if name != "id"},
        _coco_suggest,
        _coco_retract,
        _coco_only,
    ),
}
