"""Mutants: which changes are made, how they are drawn, and that tests judge them."""

import argparse
import ast
import importlib.util
import json
from pathlib import Path

import pytest
from scipy.stats import beta

from mgce_lab.soak import hardness, mutants, reliability
from mgce_lab.soak.code_changes import changes

SOURCE = '''
"""Text with 1 < 2 and not 3."""
from functools import cache

__all__ = ["f", "g"]
LIMIT: int = 3

def f(x: "1 | 2", far=False) -> "3 + 4":
    """More text, 1 + 1."""
    if not x < LIMIT:
        raise ValueError(expected("x", 5 + 6, f"{x + 7}"))
    x.total += 2 * x
    return max(x, 1) if far and x else min(x, 0)

@cache
def g(x):
    return x.clamp(min=0.5)

class C:
    def __repr__(self):
        return str(1 + 2)
'''


def described(source):
    return [(change.kind, change.described(source).partition("  ->  ")[2]) for change in changes(source)]


def test_every_kind_of_change_is_made_and_text_is_left_alone():
    found = described(SOURCE.encode())
    assert set(found) == {
        ("constant", "LIMIT: int = 4"),
        ("constant", "LIMIT: int = 2"),
        ("default", 'def f(x: "1 | 2", far=True) -> "3 + 4":'),
        ("not", "if (x < LIMIT):"),
        ("comparison", "if not x <= LIMIT:"),
        ("comparison", "if not x >= LIMIT:"),
        ("statement", "pass"),
        ("constant", "x.total += 3 * x"),
        ("constant", "x.total += 1 * x"),
        ("arithmetic", "x.total += 2 / x"),
        ("return", "return None"),
        ("not", "return max(x, 1) if (not (far and x)) else min(x, 0)"),
        ("and/or", "return max(x, 1) if far or x else min(x, 0)"),
        ("min/max", "return min(x, 1) if far and x else min(x, 0)"),
        ("min/max", "return max(x, 1) if far and x else max(x, 0)"),
        ("constant", "return max(x, 2) if far and x else min(x, 0)"),
        ("constant", "return max(x, 0) if far and x else min(x, 0)"),
        ("constant", "return max(x, 1) if far and x else min(x, 1)"),
        ("min/max", "return x.clamp(max=0.5)"),
        ("constant", "return x.clamp(min=(1.5))"),
        ("constant", "return x.clamp(min=(-0.5))"),
    }
    assert found.count(("statement", "pass")) == 2  # the sum and the error
    everywhere = [change for change in changes(SOURCE.encode()) if change.everywhere]
    assert {change.kind for change in everywhere} == {"constant", "min/max", "return"}  # LIMIT, and what is cached


@pytest.mark.parametrize(("number", "changed"), [("1e30", {"(2e+30)", "(5e+29)"}), ("0.5", {"(1.5)", "(-0.5)"})])
def test_a_changed_number_is_another_number(number, changed):
    assert {change.new for change in changes(f"X = {number}\n".encode())} == changed


@pytest.mark.parametrize("room", ["sets", "numerics", "losses"])
def test_changed_files_are_python_and_a_larger_sample_begins_with_a_smaller_one(room, request):
    tree = request.config.rootpath
    drawn = mutants.sample(tree, room, 30, seed=1)
    assert len({name for name, _, _ in drawn}) == 30
    assert mutants.sample(tree, room, 20, seed=1) == drawn[:20] != mutants.sample(tree, room, 20, seed=2)
    for _, file, change in drawn:
        source = (tree / file).read_bytes()
        assert ast.dump(ast.parse(change.apply(source))) != ast.dump(ast.parse(source))


@pytest.fixture
def tree(tmp_path):
    """A package of one room, with a slow test, a quick one and one that fails on it as it is."""
    for folder in ("src/mgce/room", "tests/room", "soak"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow', 'nightly']\n")
    for package in ("src/mgce", "src/mgce/room"):
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "src/mgce/room/sums.py").write_text(
        "def total(n):\n    while n > 9:\n        n = n // 2\n    return n\n\n\ndef unused(n):\n    return n\n"
    )
    (tmp_path / "tests/room/test_sums.py").write_text(
        "import pytest\nfrom mgce.room.sums import total\n\n"
        "@pytest.mark.slow\ndef test_large():\n    assert total(11) == 5\n\n"
        "def test_small():\n    assert total(2) == 2\n\n"
        "def test_broken():\n    assert total(2) == 3\n"
    )
    for module in ("__init__", "room_tests"):
        source = Path(mutants.__file__).with_name(f"{module}.py")
        (tmp_path / "soak" / source.name).write_text(source.read_text())
    return tmp_path


def options(tree, **changed):
    return argparse.Namespace(
        **{"per_room": 99, "seed": 0, "all": True, "quick": False, "again": False, "work": tree / "w", **changed}
    )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("coverage") is None, reason="needs coverage")
@pytest.mark.nightly
def test_changes_are_judged_by_the_tests_that_run_them(tree, monkeypatch):
    monkeypatch.setattr(mutants, "SECONDS", 1)  # two changes never end
    verdicts = mutants.judge(tree, "room", options(tree))
    noticed = {name.partition("  ->  ")[2]: one["tests"] for name, one in verdicts.items()}
    large, small = (f"tests/room/test_sums.py::test_{name}" for name in ("large", "small"))
    alone = {name: tests for name, tests in noticed.items() if tests == [large]}
    assert set(alone) == {"n = n / 2", "n = n // 3", "n = n // 1"}
    unnoticed = {name for name, tests in noticed.items() if not tests}
    assert unnoticed == {"while n >= 9:", "while n > 10:", "while n > 8:", "return None  #2"}  # the last of `unused`
    assert noticed["while n <= 9:"] == [small] and noticed["return None"] == [small, large]
    assert all(one["quick"] == [name for name in one["tests"] if name == small] for one in verdicts.values())
    ended = {name.partition("  ->  ")[2] for name, one in verdicts.items() if one["code"] not in (0, 1)}
    assert ended == {"n = n // 1", "while n <= 9:"}
    assert (
        (tree / "src/mgce/room/sums.py").read_text().startswith("def total(n):\n    while n > 9:\n        n = n // 2")
    )
    more = tree / "tests/room/test_more.py"
    more.write_text("from mgce.room.sums import unused\n\ndef test_unused():\n    assert unused(1) == 1\n")
    again = mutants.judge(tree, "room", options(tree, again=True))
    assert {name.partition("  ->  ")[2] for name in again if again[name]["tests"] != verdicts[name]["tests"]} == {
        "return None  #2"
    }
    assert "1 passed" in (tree / "w/room-lines.log").read_text()  # no file that was measured before runs again
    verdicts = again
    monkeypatch.setattr(mutants, "Copy", lambda *_: pytest.fail("a change that has a verdict was tried again"))
    assert mutants.judge(tree, "room", options(tree)) == verdicts


def verdict(*tests, slow=()):
    return {"tests": list(tests), "quick": [name for name in tests if name not in slow]}


def test_shares_intervals_and_the_page(monkeypatch, tmp_path):
    verdicts = {
        "a": verdict("t1", "t2"),
        "b": verdict("t2", slow=["t2"]),
        "c": verdict(),
        "d": verdict(),
        "e": verdict("t1"),
    }
    one = mutants.summary(verdicts, {"d": "the same"}, moved=["t1"])
    assert (one["drawn"], one["tried"], one["equivalent"], one["caught"]) == (5, 4, 1, 3)
    assert (one["quick"], one["quick without"]) == (2, 1)
    assert one["interval"] == pytest.approx((beta.ppf(0.025, 3, 2), beta.ppf(0.975, 4, 1)))
    monkeypatch.setattr(reliability, "RESULTS", tmp_path)
    assert not hardness.sections()
    after = {"machine": {"processor": "P"}, "seed": 0, "rooms": {"risk": one}}
    (tmp_path / "mutants.json").write_text(json.dumps({"after": after}))
    page = "\n".join(hardness.sections())
    assert "| risk | not tried | 3 of 4 |" in page
    (tmp_path / "mutants.json").write_text(json.dumps({"after": after, "before": after}))
    assert "| risk | 3 of 4 (19 to 99 %) | 3 of 4 |" in "\n".join(hardness.sections())


def test_what_is_judged_equivalent_has_a_reason_and_still_is_a_change(request):
    tree = request.config.rootpath
    judged = json.loads(mutants.EQUIVALENT.read_text())
    assert all(len(reason) > 10 for reason in judged.values())
    rooms = {name.partition("/")[0] for name in judged}
    known = {name for room in rooms for name, _, _ in mutants.sample(tree, room, 10**9, seed=0)}
    assert set(judged) <= known


def test_a_room_is_judged_by_the_files_of_other_rooms_that_test_its_modules(tmp_path):
    (tmp_path / "tests").mkdir()
    assert mutants._elsewhere(tmp_path, "a") == []
    named = '{"a/one": "b/test_one.py", "a/two": "a/test_all.py", "b/three": "c/test_three.py"}'
    (tmp_path / "tests/test_modules.py").write_text(f"import ast\nTESTED_IN = {named}\n")
    assert mutants._elsewhere(tmp_path, "a") == ["tests/b/test_one.py"]
