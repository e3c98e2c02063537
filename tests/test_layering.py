"""Data flows one way: a module imports from the layers above its own, never from below or beside."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "mgce"
# The layers of the package, and those inside a room that has many files, each from the top down.
ROOMS = {
    "mgce": [
        {"_text"},
        {"_validation", "_files", "_limits", "_threads", "_row_order", "_rounding"},
        {"numerics"},
        {"kernels"},
        {"link"},
        {"losses"},
        {"functional"},
        {"linear"},
        {"metrics", "noise", "risk", "datasets", "pages"},
        {"sets"},
        {"training"},
        {"estimators"},
        {"tables", "integrations", "runs"},
        {"experiments"},
        {"cli"},
        {"__main__"},
    ],
    "mgce.linear": [
        {"arrays", "plan"},
        {"objective"},
        {"dual", "coef_system", "linear_program"},
        {"interior_point"},
        {"progress"},
        {"first_order"},
        {"columns"},
        {"solver"},
    ],
    "mgce.tables": [
        {"dates", "numbers"},
        {"columns", "candidates", "predictions", "copies", "unread"},
        {"rebuilt"},
        {"choice", "suspects", "model", "notes", "dependence"},
        {"rows"},
        {"measures"},
        {"fit"},
        {"calibration_report", "class_report", "summary"},
        {"report"},
    ],
    "mgce.runs": [
        {"place", "machine", "migration", "summary", "select"},
        {"specification", "store", "records", "result"},
        {"consistency", "scratch", "study", "tables", "page"},
        {"images", "sweep", "report"},
    ],
    "mgce.experiments": [
        {"significance", "methods"},
        {"render"},
        {"compare"},
        {"compared", "paper", "benchmark"},
    ],
    "mgce.experiments.benchmark": [
        {"published", "noise_picture", "columns"},
        {"tables", "images", "settings"},
        {"protocols", "noise_tables", "rate_table"},
        {"training_table", "selection_table"},
        {"study"},
    ],
    "mgce.experiments.paper": [
        {"published", "published_mae", "image_settings", "agreement"},
        {"plan", "tabular"},
        {"images", "comparison"},
        {"convergence"},
        {"table1", "table2", "table3", "figure1", "figure3", "figure4", "figure5"},
        {"figure2", "figure6", "advantage"},
        {"items"},
    ],
}


def modules():
    """Give every module under mgce by its name, with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


def imported(path):
    """Give every module of mgce that a file imports, with the line; what is for type checkers alone counts too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("mgce."):
                yield name if name in MODULES else name.rpartition(".")[0], node.lineno


IMPORTS = {name: sorted(set(imported(path))) for name, path in MODULES.items()}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_upwards(room):
    rank = {name: number for number, names in enumerate(ROOMS[room]) for name in names}

    def place(module):
        """Give the part of the room that a module belongs to, if any."""
        inside = module.removeprefix(f"{room}.")
        return None if inside == module else inside.partition(".")[0]

    for module, names in IMPORTS.items():
        layer = place(module)
        if layer is None:
            continue
        assert layer in rank, f"{layer} stands in no layer of {room}"
        for name, line in names:
            other = place(name)
            if other not in (None, layer):
                assert rank[other] < rank[layer], f"{MODULES[module]}:{line}: {layer} may not import {other}"


def test_every_part_of_a_layer_exists():
    for room, layers in ROOMS.items():
        found = {name.removeprefix(f"{room}.").partition(".")[0] for name in MODULES if name.startswith(f"{room}.")}
        assert found == set().union(*layers)


def test_no_modules_import_one_another_in_a_circle():
    # A package gives on what its modules define: who imports a name from it depends on the package as a whole.
    graph = {module: {name for name, _ in names if name != "mgce"} for module, names in IMPORTS.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
