"""Public signatures and the options of the commands keep to the words of the table in CONTRIBUTING.md."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import mgce
import mgce.desk.files
import mgce.estimators
import mgce.labels
import mgce.loop
import mgce.metrics
import mgce.noise
import mgce.risk
import mgce.sets
from mgce.desk.cli.commands import COMMANDS, Program

MODULES = (
    mgce,
    mgce.functional,
    mgce.desk.files,
    mgce.estimators,
    mgce.labels,
    mgce.loop,
    mgce.metrics,
    mgce.noise,
    mgce.risk,
    mgce.sets,
)
CONTRIBUTING = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = CONTRIBUTING.partition("| word | means | not |")[2].partition("\n\n")[0]
TORCH = ("losses", "link", "loop", "metrics", "training")
SKLEARN = ("risk", "sets", "noise", "labels", "estimators", "linear")
# Rooms in which a public name may have a parameter, a method's parameter or a field of this name.
ALLOWED = {
    **dict.fromkeys(("noise", "noises", "rate", "rates", "eta", "level", "confidence_level", "miscoverage"), ()),
    **dict.fromkeys(("lambda_0", "lambdas", "number_of_classes", "k", "low", "high"), ()),
    "confidence": ("metrics",),  # of a bin of the reliability curve
    "alpha": ("sets",),
    "coverage": ("sets",),
    "bounds": ("risk",),
    "limits": ("risk",),
    "inverse_norm": ("losses",),
    "lambda0": ("estimators",),
    "lambda_": ("risk", "linear"),
    "num_classes": TORCH,
    "n_classes": SKLEARN,
    "delta": (*SKLEARN, "metrics", "loop"),
}
PREDICTIONS, TRUTH = ("logits", "probs", "input"), ("target", "y", "labels")


def rooms_of_words():
    """Return by word the public names that have it, each with its room."""
    found = {}
    for value in {id(value): value for module in MODULES for value in map(vars(module).get, module.__all__)}.values():
        if not callable(value):
            continue
        methods = [part for name, part in inspect.getmembers(value, inspect.isfunction) if not name.startswith("_")]
        words = [field.name for field in fields(value)] if is_dataclass(value) else []
        for one in (value, *methods) if inspect.isclass(value) else (value,):
            words += inspect.signature(one).parameters
        for word in words:
            found.setdefault(word, {})[value.__qualname__] = value.__module__.split(".")[1]
    return found


WORDS = rooms_of_words()


@pytest.mark.parametrize("word", ALLOWED)
def test_a_word_stands_only_where_it_has_its_meaning(word):
    assert not {name: room for name, room in WORDS.get(word, {}).items() if room not in ALLOWED[word]}


def test_the_words_are_those_of_the_table():
    first = re.findall(r"^\| (.+?) \|", TABLE, re.MULTILINE)
    words = set(re.findall(r"`([\w]+)`", " ".join(first)))
    assert {word for word, rooms in ALLOWED.items() if rooms} <= words
    assert {"noise_rate", "noise_type", "mae", "l1"} <= words
    assert not [word for word in words & ALLOWED.keys() if not ALLOWED[word]]


def test_predictions_stand_before_targets_where_torch_has_them_so_and_after_them_where_scikit_learn_has():
    checked = 0
    for module in MODULES:
        for value in map(vars(module).get, module.__all__):
            if not callable(value) or inspect.isclass(value):
                continue
            room, names = value.__module__.split(".")[1], list(inspect.signature(value).parameters)
            found = [[names.index(name) for name in some if name in names] for some in (PREDICTIONS, TRUTH)]
            if not all(found) or room not in (*TORCH, "risk", "sets"):
                continue
            checked += 1
            predictions, truth = map(min, found)
            assert (predictions < truth) == (room in TORCH), value.__qualname__
    assert checked > 15


def options():
    for name in COMMANDS:
        for parameter in Program.load(name).params:
            for option in parameter.opts:
                yield name, option, getattr(parameter, "help", None) or ""


def test_options_have_the_words_too():
    found = list(options())
    assert {"--noise-rate", "--noise-type", "--delta", "--out", "--out-dir"} <= {option for _, option, _ in found}
    for command, option, text in found:
        word = option.lstrip("-").replace("-", "_")
        assert ALLOWED.get(word) != () and word != "confidence", (command, option)
        assert option != "--out" or text.startswith("File"), command
        assert option != "--out-dir" or text.startswith("Folder"), command
        named = set(re.findall(r"--[a-z][a-z-]*", text))
        assert named <= {other for its, other, _ in found if its == command}, (command, option, named)


def test_no_module_says_a_word_that_has_gone():
    """Of keywords that other rooms are called with: a signature above may be private."""
    gone = re.compile(r"\b(softmax_mae|confidence_level|rate_interval)\b")
    for module in pkgutil.walk_packages(mgce.__path__, "mgce."):
        source = importlib.util.find_spec(module.name).origin
        if source.endswith(".py"):
            assert not gone.search(Path(source).read_text(encoding="utf-8")), module.name


def test_no_message_installs_a_package_by_a_name_that_is_not_published():
    """One function words what installs an extra (`_messages.not_installed`); `pip install mgce` finds nothing."""
    source = Path(__file__).parents[1] / "src/mgce"
    texts = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    assert not [name for name, text in texts.items() if re.search(r"mgce\[[a-z]|pip install '?mgce", text)]
    assert [name for name, text in texts.items() if re.search(r"pip install .*'\.\[", text)] == ["_messages.py"]
