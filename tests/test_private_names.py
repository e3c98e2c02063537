"""Which private names of scikit-learn the package uses, and where: they are why its next version is not allowed yet.

Before the upper end in pyproject.toml is raised, run the tests on the new version, and look at each of these there.
"""

import ast
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mgce"
USED = {
    # The trees of boosting, copied into arrays that a file may hold.
    "sklearn.ensemble._hist_gradient_boosting.common.PREDICTOR_RECORD_DTYPE": {"estimators/trees.py"},
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": {"estimators/trees.py"},
}


def is_private(name):
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def private_members():
    """Return the private attributes of scikit-learn's estimators that a class of ours may inherit or read."""
    boosting = HistGradientBoostingClassifier(max_iter=1).fit(*load_iris(return_X_y=True))
    return {name for name in dir(boosting) if is_private(name)}


def used(text, members):
    """Yield the private names of scikit-learn in a program: imports, attributes, and what a string names in full."""
    tree = ast.parse(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sklearn"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("sklearn")]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"sklearn(\.\w+)+", str(node.value)):
            names = [node.value]
        elif isinstance(node, ast.Attribute) and node.attr in members - own:
            names = [node.attr]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in members:
            names = [node.target.id]
        else:
            continue
        yield from filter(is_private, names)


def test_the_private_names_of_scikit_learn_are_these_and_no_others():
    members, found = private_members(), {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for name in used(text, members) if "import sklearn" in text or "from sklearn" in text else ():
            found.setdefault(name, set()).add(path.relative_to(SOURCE).as_posix())
    assert found == USED


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from sklearn.utils._tags import Tags", "sklearn.utils._tags.Tags"),
        ("import sklearn.tree._tree", "sklearn.tree._tree"),
        ("model._bin_mapper.transform(x)", "_bin_mapper"),
        ("NAMES = {'sklearn.tree._tree.Tree'}", "sklearn.tree._tree.Tree"),
        ("from sklearn.tree import DecisionTreeClassifier", None),
    ],
)
def test_a_private_name_is_found_wherever_it_stands(line, name):
    assert list(used(line, {"_bin_mapper"})) == [name] * (name is not None)


def test_the_version_after_the_newest_that_is_tested_is_not_allowed():
    (line,) = re.findall(r'^ *"(scikit-learn\S+)",$', (ROOT / "pyproject.toml").read_text(), re.M)
    pins = re.findall(r"^scikit-learn==(\S+);", (ROOT / "constraints.txt").read_text(), re.M)
    newest = max(map(Version, pins))
    allowed = Requirement(line).specifier
    assert all(pin in allowed for pin in pins) and f"{newest.major}.{newest.minor}.99" in allowed
    assert f"{newest.major}.{newest.minor + 1}.0" not in allowed and f"{newest.major + 1}.0" not in allowed
