"""Files of label tools: rows in, suggestions out, back to the same JSON, and decisions for `mgce fit --checked`."""

import copy
import csv
import json
from xml.etree import ElementTree

import pandas as pd
import pytest

import mgce
from mgce.desk.review.decision_file import HEAD, read_decisions
from mgce.integrations.label_tools import (
    DECISION,
    decisions_of_tasks,
    rows_of_tasks,
    with_suggestions,
    without_suggestions,
)

QUICK = True


def studio(number, label, *, by=10, **more):
    # The shape of the page "Label Studio JSON format of annotated tasks", with a question of choices.
    result = {"from_name": "sentiment", "id": f"r{number}", "to_name": "text", "type": "choices", "origin": "manual"}
    annotation = {"id": str(1000 + number), "result": [{**result, "value": {"choices": [label]}}], "lead_time": 4.288}
    return {
        "id": number,
        "created_at": "2021-03-09T21:52:49.513742Z",
        "project": 83,
        "data": {"text": f"text {number}", "meta_info": {"a": [1]}},
        "annotations": [{**annotation, "was_cancelled": False, "ground_truth": False, "completed_by": by}],
        **more,
    }


DOCUMENTS = {
    "label-studio": [
        studio(1, "Positive"),
        studio(2, "Negative", by={"id": 3, "email": "a@example.com"}, predictions=[]),
        studio(3, "Positive", predictions=[{"model_version": "model 1", "created_ago": "3 hours", "result": []}]),
        {"id": 4, "data": {"text": "no answer"}, "annotations": []},
    ],
    "argilla": [
        {
            "id": str(number),
            "fields": {"text": f"text {number}"},
            "metadata": {"department": "toys"},
            "suggestions": {"other": {"value": "x", "score": 0.9, "agent": "model_name"}} if number == 2 else {},
            "responses": {"label": [{"value": label, "user_id": "u1"}]} if label else {},
            "vectors": {"v": [0.1, 0.2]},
            "_server_id": None,
        }
        for number, label in ((1, "Positive"), (2, "Negative"), (3, "Positive"), (4, None))
    ],
    "doccano": [
        {"id": 1, "text": "text 1", "label": ["Positive"], "Comments": []},
        {"id": 2, "text": "text 2", "label": ["Negative"], "meta": {"a": 1}},
        {
            "id": 3,
            "text": "text 3",
            "annotations": [{"id": 3, "label": 2, "label_name": "Positive", "user": 1, "user_name": "user1"}],
            "annotation_approver": "supervisor",
        },
        {"id": 4, "text": "no answer", "label": []},
    ],
    "coco": {
        "info": {"year": 2026},
        "licenses": [],
        "categories": [{"id": 5, "name": "Negative", "supercategory": ""}, {"id": 9, "name": "Positive"}],
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 4, "height": 3} for n in (1, 2, 3, 4)],
        "annotations": [
            {"id": 7 + n, "image_id": n, "category_id": c, "bbox": [0, 0, 4, 3], "iscrowd": 0, "attributes": {"a": 1}}
            for n, c in ((1, 9), (2, 5), (3, 9), (3, 9))
        ],
    },
}
TOOLS = list(DOCUMENTS)


@pytest.fixture
def suspects(tmp_path):
    """Task 2 is suspect most, then task 1; task 3 is not."""
    path = tmp_path / "t.suspects.csv"
    head = ["rank", "task", "line", "key", "given", "suggested", "alternative", "p_wrong", "p_given", "p_suggested"]
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow([*head, "is_issue", "expected_precision", "checked", "draw", "draw_probability", "text"])
        for rank, (task, given, suggested, wrong) in enumerate(
            [
                ("2", "Negative", "Positive", 0.9),
                ("1", "Positive", "Negative", 0.6),
                ("3", "Positive", "Positive", 0.1),
            ],
            1,
        ):
            row = [rank, task, rank + 1, f"k{task}", given, suggested, "Negative", wrong, 1 - wrong, wrong]
            write.writerow([*row, wrong > 0.5, "", "", rank, 0.3, "text, with; separators"])
    return path


@pytest.mark.parametrize("tool", TOOLS)
def test_rows_have_the_label_and_the_texts_of_each_task(tool):
    rows = rows_of_tasks(DOCUMENTS[tool], tool)
    assert rows["task"].tolist() == ["1", "2", "3", "4"]
    assert rows["label"].tolist()[:3] == ["Positive", "Negative", "Positive"] and rows["label"].isna()[3]
    assert rows.iloc[0]["file_name" if tool == "coco" else "text"] in ("text 1", "1.jpg")


@pytest.mark.parametrize("tool", TOOLS)
def test_suggestions_go_out_and_come_back_to_the_same_json(tool, suspects):
    before = json.dumps(DOCUMENTS[tool])
    out = with_suggestions(DOCUMENTS[tool], tool, suspects, question="label" if tool == "argilla" else None)
    assert json.dumps(DOCUMENTS[tool]) == before and json.dumps(out) != before
    assert json.loads(json.dumps(without_suggestions(out, tool))) == json.loads(before)
    assert without_suggestions(DOCUMENTS[tool], tool) == json.loads(before)
    first = with_suggestions(DOCUMENTS[tool], tool, suspects, question="label" if tool == "argilla" else None, most=1)
    assert rows_of_tasks(first, tool)["task"].tolist() == ["2"]


def test_each_tool_gets_a_suggestion_in_its_own_words(suspects):
    task = with_suggestions(DOCUMENTS["label-studio"], "label-studio", suspects)[1]
    (prediction,) = task["predictions"]
    assert prediction["model_version"] == "mgce" and prediction["score"] == 0.9
    (result,) = prediction["result"]
    assert result == {
        "from_name": "sentiment",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": ["Positive"]},
    }
    record = with_suggestions(DOCUMENTS["argilla"], "argilla", suspects)[1]
    assert record["suggestions"]["label"] == {"value": "Positive", "score": 0.9, "agent": "mgce"}
    assert record["suggestions"]["other"]["agent"] == "model_name"
    assert with_suggestions(DOCUMENTS["doccano"], "doccano", suspects)[1]["label"] == ["Positive"]
    coco = with_suggestions(DOCUMENTS["coco"], "coco", suspects)
    assert [one["category_id"] for one in coco["annotations"]] == [5, 9, 9, 9]


def relabelled(tool, labels):
    """Return the documents of the tasks that a person has looked at, with the person's labels."""
    document = copy.deepcopy(DOCUMENTS[tool])
    if tool == "coco":
        number = {one["name"]: one["id"] for one in document["categories"]}
        for one in document["annotations"]:
            one["category_id"] = number[labels[one["image_id"] - 1]]
        document["images"] = document["images"][:3]
        return document
    for task, label in zip(document, labels, strict=False):
        if tool == "label-studio":
            task["annotations"][0]["result"][0]["value"]["choices"] = [label]
        elif tool == "argilla":
            task["responses"]["label"][0]["value"] = label
        elif "annotations" in task:
            task["annotations"][0]["label_name"] = label
        else:
            task["label"] = [label]
    return document


@pytest.mark.parametrize("tool", TOOLS)
def test_labels_of_a_person_become_decisions_that_the_fit_reads(tool, suspects, tmp_path):
    path = tmp_path / "t.decisions.csv"
    assert decisions_of_tasks(relabelled(tool, ["Positive", "Positive", "Negative"]), tool, suspects, path) == 3
    decisions, replaced = read_decisions(path)
    assert [(one.name, one.key, one.decision, one.label) for one in decisions] == [
        ("1", "k1", "keep", "Positive"),
        ("2", "k2", "suggestion", "Positive"),
        ("3", "k3", "other", "Negative"),
    ]
    assert not replaced and [one.draw for one in decisions] == [2, 1, 3] and DECISION == HEAD


def test_labels_of_several_annotators_make_the_matrix_of_the_consensus():
    tasks = []
    for number in range(40):
        task = studio(number, "Positive" if number % 2 else "Negative", by=1)
        other = studio(number, "Positive" if number % 2 and number > 4 else "Negative", by=2)
        task["annotations"] += [*other["annotations"], {**other["annotations"][0], "was_cancelled": True}]
        tasks.append(task)
    rows = rows_of_tasks(tasks, "label-studio")
    matrix = rows.pivot(index="task", columns="annotator", values="label")
    assert matrix.shape == (40, 2) and list(matrix) == ["1", "2"]
    assert set(mgce.find_consensus(matrix).labels) == {"Positive", "Negative"}


def test_what_cannot_be_read_or_told_apart_is_refused(suspects, tmp_path):
    two = studio(1, "Positive")
    two["annotations"][0]["result"].append({**two["annotations"][0]["result"][0], "from_name": "topic"})
    with pytest.raises(ValueError, match="Expected `question` to be one of sentiment, topic"):
        rows_of_tasks([two], "label-studio")
    assert rows_of_tasks([two], "label-studio", question="topic")["label"].tolist() == ["Positive"]
    with pytest.raises(ValueError, match="with one label of each annotator"):
        rows_of_tasks([{"id": 1, "label": ["a", "b"]}], "doccano")
    with pytest.raises(ValueError, match="Expected `tool`"):
        rows_of_tasks([], "paper")
    for document, tool in (({"a": 1}, "doccano"), ([], "coco"), (["text"], "argilla")):
        with pytest.raises(ValueError, match="Expected `document`"):
            rows_of_tasks(document, tool)
    with pytest.raises(ValueError, match="different ids"):
        rows_of_tasks([{"id": 1, "label": []}, {"id": 1, "label": []}], "doccano")
    with pytest.raises(ValueError, match="of the tasks of this document"):
        with_suggestions(DOCUMENTS["doccano"][:1], "doccano", suspects)
    other = copy.deepcopy(DOCUMENTS["argilla"])
    other[1]["suggestions"]["label"] = {"value": "x", "agent": "another"}
    with pytest.raises(ValueError, match="without the suggestion of another agent"):
        with_suggestions(other, "argilla", suspects)
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match="Expected `suspects` to be a file of suspects"):
        with_suggestions(DOCUMENTS["doccano"], "doccano", tmp_path / "other.csv")


CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>5</id><mode>annotation</mode><labels>
    <label><name>Negative</name><type>tag</type></label><label><name>Positive</name><type>tag</type></label>
  </labels></task></meta>
  <image id="1" name="a.jpg" width="4" height="3">
    <tag label="Positive" source="manual"><attribute name="sure">yes</attribute></tag>
  </image>
  <image id="2" name="b.jpg" width="4" height="3">
    <box label="Dog" source="manual" occluded="0" xtl="0" ytl="0" xbr="4" ybr="3" z_order="0"></box>
    <tag label="Negative" source="manual"></tag>
  </image>
  <image id="3" name="c.jpg" width="4" height="3"><tag label="Positive" source="manual"></tag></image>
  <image id="4" name="d.jpg" width="4" height="3"/>
</annotations>"""


def test_tags_of_cvat_go_out_and_come_back_to_the_same_xml(suspects, tmp_path):
    root, written = ElementTree.fromstring(CVAT), ElementTree.canonicalize(CVAT)
    rows = rows_of_tasks(root, "cvat")
    assert rows["label"].tolist()[:3] == ["Positive", "Negative", "Positive"] and rows["label"].isna()[3]
    assert rows["task"].tolist() == ["1", "2", "3", "4"] and rows["name"].tolist()[0] == "a.jpg"
    out = with_suggestions(root, "cvat", suspects)
    assert [tag.attrib for tag in out.iter("tag")][:2] == [
        {"label": "Negative", "source": "manual", "mgce": "Positive"},
        {"label": "Positive", "source": "manual", "mgce": "Negative"},
    ]
    assert ElementTree.canonicalize(ElementTree.tostring(root)) == written
    assert ElementTree.canonicalize(ElementTree.tostring(without_suggestions(out, "cvat"))) == written
    first = with_suggestions(root, "cvat", suspects, most=1)
    assert rows_of_tasks(first, "cvat")["task"].tolist() == ["2"] and first.find("meta") is not None
    path = tmp_path / "people.decisions.csv"
    assert decisions_of_tasks(out, "cvat", suspects, path) == 3
    assert [one["decision"] for one in csv.DictReader(path.read_text().splitlines())] == [
        *("suggestion", "suggestion", "keep")
    ]


@pytest.mark.parametrize("document", [[], CVAT, ElementTree.fromstring("<x/>")], ids=["list", "text", "element"])
def test_what_is_no_export_of_cvat_is_refused(document):
    with pytest.raises(ValueError, match="Expected `document` to be the root of CVAT for images"):
        rows_of_tasks(document, "cvat")
    twice = CVAT.replace('<tag label="Negative"', '<tag label="Other"/><tag label="Negative"')
    with pytest.raises(ValueError, match="one label of each annotator"):
        rows_of_tasks(ElementTree.fromstring(twice), "cvat")
