"""Every module has the test file that its name promises, or it is said here which one runs it."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "mgce"
# A module is tested in `tests/<room>/test_<module>.py`, or in the test file of one of its functions. The modules below
# serve other modules of their room, and are tested through them.
TESTED_IN = {
    "desk/cli/group": "desk/cli/test_commands.py",
    "_messages": "test_validation.py",
    "_limits": "estimators/test_archive.py",
    "functional": "test_public_api.py",
    "desk/cli/annotated": "desk/cli/test_annotations.py",
    "desk/cli/env": "desk/cli/test_commands.py",
    "desk/cli/fit_files": "desk/cli/test_fit.py",
    "desk/cli/fit_options": "desk/cli/test_fit.py",
    "desk/cli/labelled_rows": "desk/cli/test_certify.py",
    "desk/cli/main": "test_main.py",
    "desk/cli/shared_options": "desk/cli/test_fit.py",
    "desk/files/excel_xml": "desk/files/test_excel_tables.py",
    "desk/streams/pilot": "desk/streams/test_fit.py",
    "_column_types": "desk/tables/test_frame_types.py",
    "desk/files/images": "desk/encoders/test_pictures.py",
    "desk/files/text_tables": "desk/files/test_table_files.py",
    "desk/files/written_tables": "desk/files/test_table_files.py",
    "estimators/directions": "estimators/test_embedding.py",
    "estimators/fourier_ridge": "estimators/test_correction.py",
    "estimators/torch_modules": "estimators/test_to_torch.py",
    "estimators/trees": "estimators/test_forest.py",
    "estimators/parameters": "estimators/test_linear.py",
    "integrations/cleanlab/classification": "integrations/test_cleanlab.py",
    "integrations/cleanlab/datalab": "integrations/test_cleanlab.py",
    "integrations/cleanlab/issues": "integrations/test_cleanlab.py",
    "integrations/cleanlab/multiannotator": "integrations/test_cleanlab.py",
    "integrations/lightgbm": "integrations/test_boosting.py",
    "integrations/xgboost": "integrations/test_boosting.py",
    "kernels/cuda_chunks": "kernels/test_cuda.py",
    "kernels/cuda_launch": "kernels/test_cuda.py",
    "kernels/cuda_math": "kernels/test_cuda.py",
    "kernels/cuda_plan": "kernels/test_cuda_long.py",
    "kernels/cuda_rows": "kernels/test_cuda.py",
    "kernels/options": "kernels/test_cpu.py",
    "linear/first_order": "linear/test_solver.py",
    "linear/progress": "linear/test_solver.py",
    "losses/arguments": "losses/test_mgce_loss.py",
    "losses/base": "losses/test_modules.py",
    "losses/composite": "losses/test_fused.py",
    "losses/linear_chunks": "losses/test_linear_mgce_loss.py",
    "loop/average": "loop/test_keeper.py",
    "loop/indexed_dataset": "losses/test_indexed.py",
    "loop/verdict": "loop/test_keeper.py",
    "losses/scored": "losses/test_presets.py",
    "desk/review/rows_of_csv": "desk/review/test_suspect_file.py",
    "risk/alpha_loss": "risk/test_paper_theorems.py",
    "risk/parts": "risk/test_label_noise.py",
    "risk/sample": "risk/test_label_noise.py",
    "risk/certifying": "risk/test_certificate.py",
    "risk/looks": "risk/test_checking.py",
    "sets/conformal": "sets/test_calibration.py",
    "desk/tables/suspects_report": "desk/tables/test_report.py",
    "estimators/consensus_classifier": "labels/test_consensus.py",
    "desk/tables/class_report": "desk/tables/test_report.py",
    "desk/tables/fit_plan": "desk/tables/test_fit.py",
    "desk/tables/held_out": "desk/tables/test_fit.py",
    "desk/tables/learning": "desk/tables/test_fit.py",
    "desk/tables/looked_up": "desk/cli/test_certify.py",
    "desk/tables/predictions": "desk/cli/test_certify.py",
    "desk/tables/rebuilt": "desk/tables/test_model.py",
    "desk/tables/summary": "desk/cli/test_fit.py",
    "desk/columns/cells": "desk/columns/test_numbers.py",
    "desk/columns/dependence": "desk/tables/test_dependence.py",
    "desk/columns/embeddings": "desk/tables/test_embeddings.py",
}


def promised(path):
    """Return the test files that the name of a module promises, or that of a function in it."""
    room = TESTS / path.relative_to(SOURCE).parent
    public = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return [room / f"test_{name}.py" for name in (path.stem.strip("_"), *public)]


def unpromised():
    """Yield the modules whose names promise a test file that is not there."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.stem != "__init__" and not any(file.is_file() for file in promised(path)):
            yield path.relative_to(SOURCE).with_suffix("").as_posix()


def test_every_module_has_its_test_file_or_a_line_here():
    assert set(unpromised()) == set(TESTED_IN)


def test_every_file_that_is_named_here_exists():
    assert not [file for file in TESTED_IN.values() if not (TESTS / file).is_file()]
