"""10^5 rows of the soak, and that it would notice."""

import dataclasses
import functools
import json

import pytest
import torch

from mgce_lab.soak import __main__, numerics, page, truth
from mgce_lab.soak.backends import BACKENDS, usable
from mgce_lab.soak.plan import BETAS, DTYPES, SIZES, Case, plan

pytestmark = pytest.mark.skipif(truth.EPS > 2e-19, reason="no extended precision on this machine")
SHARDS = 12


@pytest.mark.nightly
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_wrong_number_in_100_000_rows(shard):
    names = [name for name in usable() if name != "compile"]  # takes a minute a case
    result = numerics.run(list(plan(100_000, seed=11))[shard::SHARDS], names)
    summary = numerics.summarize(result)
    assert not summary["failures"], page.table_of_errors(summary)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 1.0625])
@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_whose_classes_are_tied_near_the_edge(dtype, seed, beta):
    """Each of these cases has rows that were beyond the limits while any small step was taken for the last one."""
    summary = numerics.summarize(numerics.run([Case("tied_near_edge", dtype, 150, 1025, beta, seed)], ["cpu", "torch"]))
    assert not summary["failures"], page.table_of_errors(summary)


def spoiled(name, quantity, spoil):
    """Return a backend whose result is spoiled in rows that have a class far below the others."""
    backend = BACKENDS[name]

    def outputs(f, labels, beta):
        found = backend.outputs(f, labels, beta)
        rare = f.amax(-1) - f.amin(-1) > 9.5
        found[quantity][rare] = spoil(found[quantity][rare])
        return found

    return dataclasses.replace(backend, outputs=outputs)


CASE = Case("normal", "float32", 64, 7, 1.4, 5)  # most rows have no such class


@pytest.mark.parametrize(
    ("quantity", "spoil"),
    [
        ("t", lambda t: t - 20 * torch.finfo(t.dtype).eps * t.abs().clamp(min=1)),
        ("loss", lambda loss: loss + 20 * torch.finfo(loss.dtype).eps * loss.abs().clamp(min=1)),
        ("h", lambda h: h * (1 + 20 * torch.finfo(h.dtype).eps)),
        ("p", lambda p: p.roll(1, -1)),
        ("gradient", lambda gradient: gradient * 1.0001),
    ],
)
def test_a_planted_error_is_found_and_can_be_replayed(monkeypatch, capsys, quantity, spoil):
    arguments = ["soak", "numerics", "--backends", "torch", "--replay"]
    monkeypatch.setattr("sys.argv", [*arguments, str(CASE)])
    assert __main__.main() == 0
    monkeypatch.setitem(BACKENDS, "torch", spoiled("torch", quantity, spoil))
    failures = numerics.summarize(numerics.run([CASE], ["torch"]))["failures"]
    assert f"torch/float32/normal/{quantity}" in failures
    assert {failure.rsplit("/", 1)[1].split()[0] for failure in failures} == {quantity}
    capsys.readouterr()
    assert __main__.main() == 1
    assert f"BEYOND ITS LIMIT {page.QUANTITIES[quantity].limit:g} in: normal" in capsys.readouterr().out


def test_planted_faults_of_order_are_found(monkeypatch):
    def concave(f, labels, beta):
        loss = torch.ones(len(f), dtype=f.dtype)
        loss[1::3] = 1 + 40 * torch.finfo(f.dtype).eps
        return {"t": -loss, "loss": loss}

    def falling(f, labels, beta):
        loss = torch.full((len(f),), 2 - beta / 100, dtype=f.dtype)
        return {"t": -loss, "loss": loss}

    for outputs, family, quantities in (
        (concave, "segments", ["convexity"]),
        (falling, "betas", ["monotone loss", "monotone t"]),
    ):
        monkeypatch.setitem(BACKENDS, "torch", dataclasses.replace(BACKENDS["torch"], outputs=outputs))
        summary = numerics.summarize(numerics.run([Case(family, "float64", 6, 5, 1.4, 2)], ["torch"]))
        for quantity in quantities:
            assert f"torch/float64/{family}/{quantity}" in summary["failures"]


def test_a_plan_is_the_same_again_and_holds_every_size():
    cases = list(plan(20_000, seed=1))
    assert cases == list(plan(20_000, seed=1)) != list(plan(20_000, seed=2))
    assert 20_000 <= sum(case.n * len(case.betas) for case in cases) <= 20_000 * 1.1
    for size in SIZES:
        assert any(size.least <= case.k <= size.listed[-1] for case in cases)
    assert {case.dtype for case in cases} == set(DTYPES)
    assert {beta for case in plan(100_000, seed=1) for beta in case.betas} == set(BETAS)
    assert all(Case.parse(str(case)) == case for case in cases)


def test_parts_are_kept_and_merge_to_the_whole(monkeypatch, tmp_path):
    monkeypatch.setattr(numerics, "PARTS", 3)
    run_part = functools.partial(numerics.run_part, tmp_path, 300, 4, ("torch",))
    for part in range(3):
        run_part(part)
    files = sorted(tmp_path.iterdir())
    monkeypatch.setattr(numerics, "run", lambda *_: pytest.fail("a part that is done was run again"))
    run_part(1)
    monkeypatch.undo()
    merged = numerics.merge(json.loads(path.read_text()) for path in files)
    whole = numerics.run(plan(300, seed=4), ["torch"])
    assert numerics.summarize(merged) == numerics.summarize(whole)
    assert merged["rows"] == whole["rows"] == sum(case.n * len(case.betas) for case in plan(300, seed=4))


def test_a_run_that_was_stopped_is_recorded_with_the_rows_that_are_done(monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(page, "save", written.append)
    monkeypatch.setattr(page, "main", lambda: written.append("the page"))
    arguments = ["soak", "numerics", "--rows", "100", "--backends", "torch", "--work", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*arguments, "--shard", f"0/{numerics.PARTS}"])
    __main__.main()
    monkeypatch.setattr("sys.argv", [*arguments, "--done", "--record"])
    assert __main__.main() == 0
    first = next(plan(100, seed=0))
    record, last = written
    assert last == "the page"
    assert (record["rows"], record["planned"]) == (first.n * len(first.betas), 100)
    assert sum(record["counts"].values()) <= record["rows"] < 100


def test_one_share_does_not_pass_for_the_whole(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(numerics, "PARTS", 4)
    arguments = ["soak", "numerics", "--rows", "100", "--backends", "torch", "--work", str(tmp_path), "--shard"]
    monkeypatch.setattr("sys.argv", [*arguments, "0/2"])
    __main__.main()
    assert "other shares of the run are not" in capsys.readouterr().out
