"""Data flows one way: a module imports from the layers above its own, never from below or beside."""

import ast
import functools
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The layers of the package, and those inside each room, from the top down. A file that is not named here stands where
# its imports put it: whoever imports it counts as importing what it imports.
ROOMS = {
    "mgce": (
        "_text",
        "_messages",
        "_column_types _seeds _svg _validation _files _limits _threads _row_order _rounding",
        "_arrays _arrow_sizes",
        "numerics",
        "kernels",
        "_machine",
        "link",
        "losses",
        "functional",
        "linear",
        "features metrics noise",
        "labels",
        "risk loop",
        "sets",
        "estimators",
        "integrations",
        "desk",
        "__main__",
    ),
    "mgce.numerics": ("root", "implicit"),
    "mgce.kernels": (
        "options cuda_math cuda_plan",
        "cpu cuda_rows",
        "cuda_chunks",
        "cuda_long",
        "cuda_launch",
        "cuda",
        "comparison",
        "proof",
        "dispatch",
    ),
    "mgce.link": ("probs",),
    "mgce.losses": (
        "arguments base",
        "records",
        "scored",
        "composite",
        "fused linear_chunks",
        "functional",
        "linear",
        "modules",
        "protocol scored_module",
        "wrapping",
        "sums",
        "indexed multi_label trimmed",
        "active_passive forward temperature early_learning",
        "presets",
    ),
    "mgce_lab.losses": ("capped clipped normalized reweighted self_adaptive tempered unhinged",),
    "mgce.linear": (
        "objective",
        "interior_point",
        "progress",
        "first_order",
        "solver",
    ),
    "mgce.metrics": ("calibration", "streaming evaluation"),
    "mgce.noise": ("corruption",),
    "mgce.labels": (
        "choosing confident mixture out_of_fold share sharpened",
        "annotators correction",
        "doubtful independence",
        "consensus",
        "chance_agreement",
    ),
    "mgce.loop": (
        "average indexed_dataset",
        "verdict",
        "keeper",
        "recipes",
    ),
    "mgce.risk": (
        "concentration",
        "betting stratified",
        "sample",
        "certificate label_noise looks noise_rate uncertainty",
        "alpha_loss checking",
        "certifying",
        "minimax parts",
    ),
    "mgce.features": ("feature_files",),
    "mgce.desk": ("files pages", "columns encoders", "review", "tables", "streams", "cli"),
    "mgce.desk.files": (
        "images layout parts vectors written_tables",
        "excel_xml separators",
        "excel_tables reading",
        "text_tables typed_tables",
        "changed_files table_files",
        "tables",
    ),
    "mgce.desk.pages": ("web_page",),
    "mgce.desk.review": ("keys draws rows_of_csv", "bounds cleaning", "decision_file", "suspect_file", "sheet"),
    "mgce.desk.encoders": ("pictures", "embedding", "libraries"),
    "mgce.sets": ("conformal", "calibration"),
    "mgce_lab.training": (
        "member_losses settings",
        "ensemble",
    ),
    "mgce.estimators": (
        "archive base directions fourier_ridge trees",
        "persistence stochastic torch_modules",
        "forest linear soft_targets",
        "correction embedding",
        "consensus_classifier merged suspects",
    ),
    "mgce.desk.columns": (
        "cells copies embeddings spellings",
        "texts",
        "kinds",
        "dependence notes",
    ),
    "mgce.desk.tables": (
        "predictions text_features",
        "rebuilt",
        "choice model",
        "rows",
        "fit_plan",
        "held_out learning",
        "listing checked",
        "looked_up",
        "fit",
        "known_table",
        "annotations class_report summary suspects_report",
        "report",
    ),
    "mgce.desk.streams": ("chunks", "pilot", "fit", "dask_frames"),
    "mgce.integrations": (
        "boosting cleanlab label_tools lightning onnx skorch transformers untied",
        "lightgbm xgboost",
    ),
    "mgce.integrations.cleanlab": ("issues", "classification datalab multiannotator"),
    "mgce.desk.cli": (
        "env main shared_options",
        "group terminal",
        "outputs",
        "embedded",
        "annotated labelled_rows",
        "fit_files",
        "certify embed fit predict review",
        "commands demo",
    ),
    "mgce_lab": (
        "data losses seeds training",
        "images",
        "engine",
        "compare paper protocols",
        "soak",
        "suite",
        "table_model",
        "studies",
        "cli",
        "__main__",
    ),
    "mgce_lab.data": (
        "image_sets sources",
        "cifar idx image_folders svhn",
        "cifar_n openml uci uci_copies",
        "registry",
    ),
    "mgce_lab.images": (
        "logit_layer square_images",
        "convnet resnet",
        "image_settings",
        "image_data",
        "image_classifier image_model",
        "image_fit lightning",
    ),
    "mgce_lab.engine": (
        "lines markdown methods picture place png select significance summary",
        "specification store records result",
        "consistency render scratch study tables page",
        "images sweep report",
    ),
    "mgce_lab.compare": ("compare", "compared"),
    "mgce_lab.paper": (
        "published published_mae image_settings agreement",
        "plan tabular",
        "images comparison",
        "convergence",
        "table1 table2 table3 figure1 figure3 figure4 figure5",
        "figure2 figure6 advantage",
        "items",
    ),
    "mgce_lab.protocols": (
        "published noise_picture columns",
        "tables images settings",
        "protocols noise_tables rate_table",
        "training_table selection_table",
        "study",
    ),
    "mgce_lab.suite": ("choice noises tables", "cells", "opponents", "cache", "rankings", "records", "page"),
    "mgce_lab.cli": ("lists studies labelled_images", "benchmark compare report reproduce train", "commands", "main"),
}


def modules(*folders):
    """Yield every module under some folders by its name, with its file."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules(ROOT / "src" / "mgce", ROOT / "lab" / "src" / "mgce_lab"))
# Programs that are run by hand: they import what they measure, in no order.
PROGRAMS = {"mgce_lab.studies", "mgce_lab.studies.gpu", "mgce_lab.soak", "mgce_lab.table_model"}


def imported(path):
    """Yield every module of ours that a file imports, with the line; what is for type checkers alone counts too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith(("mgce.", "mgce_lab.")):
                yield name if name in MODULES else name.rpartition(".")[0], node.lineno


@functools.cache
def all_imports():
    """Return the imports of every module: read where a test asks, since every process of a run collects this file."""
    return {name: sorted(set(imported(path))) for name, path in MODULES.items()}


def part(room, module):
    """Return the file or folder of a room that a module belongs to, if any."""
    inside = module.removeprefix(f"{room}.")
    return None if inside == module else inside.partition(".")[0]


def faults(room, imports):
    """Yield the imports of a room that do not point upwards, each as a sentence."""
    rank = {name: number for number, names in enumerate(ROOMS[room]) for name in names.split()}

    def named(module, seen):
        """Return the named parts that are imported with a module: its own, or what it imports if it is in none."""
        own = part(room, module)
        if own is None or own in rank:
            return {own} - {None}
        return set().union(*(named(name, {*seen, module}) for name, _ in imports[module] if name not in seen))

    for module, names in imports.items():
        own = part(room, module)
        if own not in rank:
            continue
        for name, line in names:
            for other in sorted(named(name, {module}) - {own}):
                if rank[other] >= rank[own]:
                    through = "" if part(room, name) == other else f" through {name}"
                    yield f"{MODULES[module]}:{line}: {own} may not import {other}{through}"


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_upwards(room):
    assert not list(faults(room, all_imports()))


@pytest.mark.parametrize(
    ("room", "module", "upwards"),
    [
        # None of these closes a circle.
        ("mgce", "mgce.noise.corruption", "mgce.sets.conformal"),
        ("mgce.losses", "mgce.losses.linear", "mgce.losses.presets"),
        ("mgce.losses", "mgce.losses.indexed", "mgce.losses.active_passive"),
        ("mgce.risk", "mgce.risk.alpha_loss", "mgce.risk.certifying"),
        ("mgce.kernels", "mgce.kernels.cuda_plan", "mgce.kernels.cpu"),
    ],
)
def test_an_upward_import_is_seen_also_through_a_file_that_no_layer_names(room, module, upwards):
    direct = {**all_imports(), module: [*all_imports()[module], (upwards, 1)]}
    assert len(list(faults(room, direct))) == 1
    new = f"{room}.new"
    through = {**all_imports(), module: [*all_imports()[module], (new, 1)], new: [(upwards, 1)]}
    (fault,) = faults(room, through)
    assert fault.endswith(f"{part(room, module)} may not import {part(room, upwards)} through {new}")


def test_nothing_of_the_package_imports_the_lab():
    found = {
        name: {other for other, _ in names if other.startswith("mgce_lab")} for name, names in all_imports().items()
    }
    assert not {name: others for name, others in found.items() if others and name.startswith("mgce.")}
    assert any(found.values())


def test_every_room_has_its_layers_and_every_name_in_them_a_file():
    packages = {name.rpartition(".")[0] for name in MODULES} - {""}
    assert set(ROOMS) == packages - PROGRAMS
    for room, layers in ROOMS.items():
        found = {part(room, name) for name in MODULES} - {None}
        stated = " ".join(layers).split()
        assert len(stated) == len(set(stated)), room
        assert set(stated) <= found, f"no such files in {room}: {set(stated) - found}"
        if room in ("mgce", "mgce_lab"):
            assert found <= set(stated), f"in no layer of {room}: {found - set(stated)}"


def test_no_modules_import_one_another_in_a_circle():
    # A package gives on what its modules define: who imports a name from it depends on the package as a whole.
    graph = {module: {name for name, _ in names if name != "mgce"} for module, names in all_imports().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
