"""Every module has the test file that its name promises, or it is said here which one runs it."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "mgce"
# A module is tested in `tests/<room>/test_<module>.py`, or in the test file of one of its functions. The modules below
# serve other modules of their room, and are tested through them.
TESTED_IN = {
    "_machine": "cli/test_commands.py",
    "cli/group": "cli/test_commands.py",
    "pages/policy": "pages/test_web_page.py",
    "_limits": "estimators/test_archive.py",
    "_text": "cli/test_hostile_names.py",
    "functional": "test_public_api.py",
    "cli/annotated": "cli/test_annotations.py",
    "cli/encoding": "cli/test_embed.py",
    "cli/env": "cli/test_commands.py",
    "cli/fit_files": "cli/test_fit.py",
    "cli/fit_options": "cli/test_fit.py",
    "cli/option_groups": "cli/test_fit.py",
    "cli/fit_printed": "cli/test_fit.py",
    "cli/interrupt": "test_main.py",
    "cli/labelled_rows": "cli/test_certify.py",
    "cli/list_options": "cli/test_fit.py",
    "cli/main": "cli/test_commands.py",
    "cli/network_options": "cli/test_embed.py",
    "cli/noise_options": "cli/test_certify.py",
    "cli/table_options": "cli/test_fit.py",
    "datasets/excel_sheets": "datasets/test_excel_tables.py",
    "datasets/column_types": "tables/test_frame_types.py",
    "datasets/images": "encoders/test_pictures.py",
    "datasets/splits": "tables/test_known_table.py",
    "datasets/text_tables": "datasets/test_table_files.py",
    "datasets/written_tables": "datasets/test_table_files.py",
    "estimators/directions": "estimators/test_embedding.py",
    "estimators/log_margins": "estimators/test_forest.py",
    "estimators/penalized": "estimators/test_embedding.py",
    "estimators/torch_modules": "estimators/test_to_torch.py",
    "estimators/trees": "estimators/test_boosting.py",
    "estimators/parameters": "estimators/test_linear.py",
    "estimators/unbuilt": "tables/test_model.py",
    "integrations/lightgbm": "integrations/test_boosting.py",
    "integrations/xgboost": "integrations/test_boosting.py",
    "kernels/cpu_library": "kernels/test_cpu.py",
    "kernels/cpu_trim": "losses/test_trimmed.py",
    "kernels/cuda_chunks": "kernels/test_cuda.py",
    "kernels/cuda_launch": "kernels/test_cuda.py",
    "kernels/cuda_math": "kernels/test_cuda.py",
    "kernels/cuda_plan": "kernels/test_cuda_long.py",
    "kernels/cuda_rows": "kernels/test_cuda.py",
    "kernels/options": "kernels/test_cpu.py",
    "linear/dual": "linear/test_solver.py",
    "linear/first_order": "linear/test_solver.py",
    "linear/interior_point": "linear/test_solver.py",
    "linear/linear_program": "linear/test_solver.py",
    "linear/moments": "linear/test_objective.py",
    "linear/progress": "linear/test_solver.py",
    "losses/arguments": "losses/test_mgce_loss.py",
    "losses/base": "losses/test_modules.py",
    "losses/composite": "losses/test_fused.py",
    "losses/linear_chunks": "losses/test_linear_mgce_loss.py",
    "losses/linear_operator": "losses/test_linear_mgce_loss.py",
    "loop/average": "loop/test_keeper.py",
    "loop/picture": "loop/test_keeper.py",
    "loop/validation": "loop/test_keeper.py",
    "loop/indexed_dataset": "losses/test_indexed.py",
    "loop/verdict": "loop/test_keeper.py",
    "losses/nll": "losses/test_gce_loss.py",
    "losses/remembering": "losses/test_indexed.py",
    "losses/scale": "losses/test_protocol.py",
    "losses/scored": "losses/test_presets.py",
    "losses/texts": "losses/test_scored_module.py",
    "metrics/binning": "metrics/test_calibration.py",
    "labels/confident": "labels/test_doubtful.py",
    "review/rows_of_csv": "review/test_suspect_file.py",
    "risk/alpha_loss": "risk/test_paper_theorems.py",
    "risk/parts": "risk/test_label_noise.py",
    "risk/sample": "risk/test_label_noise.py",
    "risk/stated_noise": "risk/test_label_noise.py",
    "sets/conformal": "sets/test_calibration.py",
    "tables/suspects_report": "tables/test_report.py",
    "tables/annotator_report": "cli/test_annotations.py",
    "tables/calibration_report": "tables/test_report.py",
    "tables/candidates": "tables/test_choice.py",
    "estimators/consensus_classifier": "labels/test_consensus.py",
    "tables/class_report": "tables/test_report.py",
    "tables/fit_plan": "tables/test_fit.py",
    "tables/held_out": "tables/test_fit.py",
    "tables/learning": "tables/test_fit.py",
    "tables/looked_up": "cli/test_certify.py",
    "tables/predictions": "cli/test_certify.py",
    "tables/rebuilt": "tables/test_model.py",
    "tables/summary": "cli/test_fit.py",
    "columns/unread": "columns/test_notes.py",
    "columns/dependence": "tables/test_dependence.py",
    "columns/embeddings": "tables/test_embeddings.py",
    "training/steps": "training/test_ensemble.py",
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
