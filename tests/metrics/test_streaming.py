"""The torchmetrics classes against the functions: batches, copies, dtypes, processes."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torchmetrics import MetricCollection

from mgce import _validation
from mgce.metrics import (
    AdaptiveCalibrationError,
    ExpectedCalibrationError,
    StaticCalibrationError,
    adaptive_calibration_error,
    expected_calibration_error,
    static_calibration_error,
)
from no_float64 import OnApple

PAIRS = [
    (lambda **options: ExpectedCalibrationError(7, **options), expected_calibration_error),
    (lambda **options: StaticCalibrationError(4, 7, **options), static_calibration_error),
    (lambda **options: AdaptiveCalibrationError(7, **options), adaptive_calibration_error),
]
every_metric = pytest.mark.parametrize(("build", "function"), PAIRS, ids=["ece", "sce", "ace"])


@pytest.fixture
def rows():
    """Rows of a sparse map, with exact zeros and ones, as `probs` and `target`."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(200, 4, generator=generator)
    probs = torch.relu(logits - logits.amax(1, keepdim=True) + 1)
    return probs / probs.sum(1, keepdim=True), torch.randint(4, (200,), generator=generator)


def in_batches(rows, size):
    return zip(rows[0].split(size), rows[1].split(size), strict=True)


@every_metric
@pytest.mark.parametrize("size", [1, 30, 200])
def test_batches_give_what_the_function_gives(build, function, rows, size):
    metric = build()
    for batch in in_batches(rows, size):
        metric.update(*batch)
    torch.testing.assert_close(metric.compute(), function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
def test_forward_gives_the_value_of_the_batch(build, function, rows):
    metric = build()
    for batch in in_batches(rows, 50):
        torch.testing.assert_close(metric(*batch), function(*batch, 7), rtol=0, atol=1e-14)
    torch.testing.assert_close(metric.compute(), function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
def test_reset_forgets(build, function, rows):
    metric = build()
    metric.update(rows[0][:100], rows[1][:100])
    metric.reset()
    metric.update(rows[0][100:], rows[1][100:])
    torch.testing.assert_close(metric.compute(), function(rows[0][100:], rows[1][100:], 7), rtol=0, atol=1e-14)


@every_metric
@pytest.mark.parametrize(
    "copy", [lambda m: m.clone(), lambda m: pickle.loads(pickle.dumps(m))], ids=["clone", "pickle"]
)
def test_copies_are_independent(build, function, rows, copy):
    metric = build()
    metric.update(rows[0][:50], rows[1][:50])
    other = copy(metric)
    other.update(rows[0][50:], rows[1][50:])
    torch.testing.assert_close(other.compute(), function(*rows, 7), rtol=0, atol=1e-14)
    torch.testing.assert_close(metric.compute(), function(rows[0][:50], rows[1][:50], 7), rtol=0, atol=1e-14)


@every_metric
def test_state_dict_restores(build, function, rows):
    metric, other = build(), build()
    for each in metric, other:
        each.persistent(True)
    metric.update(*rows)
    other.load_state_dict(metric.state_dict())
    other.update(*rows)
    torch.testing.assert_close(other.compute(), function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
def test_merged_states_are_those_of_all_rows(build, function, rows):
    metric, other = build(), build()
    metric.update(rows[0][:120], rows[1][:120])
    other.update(rows[0][120:], rows[1][120:])
    metric.merge_state(other)
    torch.testing.assert_close(metric.compute(), function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_inputs_and_half_models(build, function, rows, dtype):
    """A module cast to half precision keeps the sums of its metrics in float64."""
    module = torch.nn.Module()
    module.metric = build()
    module.to(dtype)
    probs = rows[0].to(dtype)
    for batch in in_batches((probs, rows[1]), 30):
        module.metric.update(*batch)
    assert module.metric.compute().dtype == torch.float64
    torch.testing.assert_close(module.metric.compute(), function(probs, rows[1], 7), rtol=0, atol=1e-14)


@every_metric
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu(build, function, rows):
    metric = build().to("cuda")
    for probs, target in in_batches(rows, 30):
        metric.update(probs.cuda(), target.cuda())
    assert metric.compute().device.type == "cuda"
    torch.testing.assert_close(metric.compute().cpu(), function(*rows, 7), rtol=0, atol=1e-14)


def test_collection(rows):
    """A collection lets metrics of equal states share them, so different states must not look equal."""
    collection = MetricCollection({function.__name__: build() for build, function in PAIRS})
    for batch in in_batches(rows, 30):
        collection.update(*batch)
    values = collection.compute()
    for _, function in PAIRS:
        torch.testing.assert_close(values[function.__name__], function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
def test_bad_rows_leave_the_state_alone(build, function, rows):
    metric = build()
    metric.update(*rows)
    with pytest.raises(ValueError, match="rows sum to one"):
        metric.update(rows[0] / 2, rows[1])
    torch.testing.assert_close(metric.compute(), function(*rows, 7), rtol=0, atol=1e-14)


@every_metric
def test_checks_of_values_can_be_skipped(build, function, rows):
    metric = build(validate_args=False)
    metric.update(rows[0] / 2, rows[1])
    torch.testing.assert_close(metric.compute(), function(rows[0] / 2, rows[1], 7, validate_args=False))


@every_metric
def test_apples_gpus_have_no_float64(build, function, rows):
    metric = build()
    for probs, target in in_batches(rows, 50):
        metric.update(OnApple(probs), OnApple(target))
    got = (metric.compute(), function(OnApple(rows[0]), OnApple(rows[1]), 7))
    assert all(value.dtype == torch.float64 and value.device.type == "cpu" for value in got)
    torch.testing.assert_close(got, (function(*rows, 7),) * 2, rtol=0, atol=1e-14)


@every_metric
def test_states_stay_where_float64_is(build, function, rows, monkeypatch):
    """The device `meta` stands for one without, since a tensor can be moved there anywhere."""
    monkeypatch.setattr(_validation, "WITHOUT_FLOAT64", ("meta",))
    metric = build()
    metric.update(*rows)
    moved = metric.to("meta")
    assert moved.device.type == "meta"
    torch.testing.assert_close(moved.compute(), function(*rows, 7))
    moved.reset()
    moved.update(*rows)
    torch.testing.assert_close(moved.compute(), function(*rows, 7))
    with torch.device("meta"):
        build()


def test_bad_arguments():
    for build in (ExpectedCalibrationError, AdaptiveCalibrationError, lambda b: StaticCalibrationError(4, b)):
        with pytest.raises(ValueError, match="Expected `n_bins` to be an integer of at least 1, but got 0"):
            build(0)
    with pytest.raises(TypeError, match="Expected `num_classes` to be an integer of at least 1, but got 'x'"):
        StaticCalibrationError("x")


@pytest.mark.parametrize("validate_args", [True, False])
def test_sce_refuses_another_number_of_classes(validate_args):
    """A single class would broadcast against any other number."""
    metric = StaticCalibrationError(4, validate_args=validate_args)
    with pytest.raises(ValueError, match=r"`probs` to be a tensor of shape \(N, 4\), but got \(2, 1\)"):
        metric.update(torch.ones(2, 1), torch.tensor([0, 0]))


@pytest.mark.slow
@pytest.mark.nightly
def test_two_processes_agree_with_the_function(rows, tmp_path):
    torch.save({"probs": rows[0], "target": rows[1]}, tmp_path / "rows.pt")
    worker = Path(__file__).with_name("sync_worker.py")
    processes = [subprocess.Popen([sys.executable, worker, str(rank), tmp_path]) for rank in range(2)]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    for rank in range(2):
        values = json.loads((tmp_path / f"rank{rank}.json").read_text())
        for build, function in PAIRS:
            assert values[type(build()).__name__] == pytest.approx(function(*rows, 7).item(), abs=1e-14)
