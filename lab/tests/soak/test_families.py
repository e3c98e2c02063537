import math

import numpy as np
import pytest
import torch

from mgce_lab.soak import truth
from mgce_lab.soak.families import FAMILIES, nudged, rows
from mgce_lab.soak.measure import valid_rows

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
N, K = 64, 33


def draw(family, beta=1.5, dtype=torch.float32, n=N, k=K, seed=3):
    return rows(family, n, k, beta, dtype, seed)[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_dtype_and_seed(family, dtype):
    for k in (1, 2, K):
        for beta in (1.0, 1.4, 1e9, math.inf):
            logits, labels = rows(family, 7, k, beta, dtype, 1)
            again, labels_again = rows(family, 7, k, beta, dtype, 1)
            assert logits.shape == (7, k) and logits.dtype == dtype and labels.shape == (7,)
            assert torch.equal(logits.nan_to_num(), again.nan_to_num()) and torch.equal(labels, labels_again)
            assert 0 <= labels.min() and labels.max() < k
            assert family == "invalid" or valid_rows(logits).all()
    assert not torch.equal(draw(family, seed=1).nan_to_num(), draw(family, seed=2).nan_to_num())


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16))
def test_nudged_gives_the_neighbouring_number(dtype):
    f = torch.randn(100).to(dtype)
    assert torch.equal(nudged(f, torch.ones(100)), torch.nextafter(f, f.sign() * torch.inf))
    assert torch.equal(nudged(f, -torch.ones(100)), torch.nextafter(f, torch.zeros_like(f)))
    assert torch.equal(nudged(torch.zeros(3), torch.ones(3)), torch.zeros(3))


def test_edge_rows_are_at_the_edge():
    f = draw("edge", n=300).double()
    x = f - f.amax(-1, keepdim=True)
    exact = (x == -1.5) | (x == 0)
    assert (exact.all(-1) & (f.amax(-1) == 0)).sum() > 20  # all classes but one, where no rounding moves them
    unit = torch.finfo(torch.float32).eps * f.abs().clamp(min=1)
    assert ((x + 1.5).abs() <= 2 * unit).logical_or(x == 0).all(-1).sum() > 150
    assert (x + 1.5 > 0.01).any(-1).sum() > 50  # the rows in which a part lies within


def test_part_at_edge_has_classes_at_the_edge_of_the_support_of_the_others():
    f = draw("part_at_edge", dtype=torch.float64, n=200)
    true = truth.solve(f.numpy(), 1.5)
    v = (1.5 + true.x + true.t[:, None]).astype(float)
    at_edge = np.abs(v) <= 8 * torch.finfo(torch.float64).eps * np.maximum(1, np.abs(f.numpy()))
    assert (at_edge.sum(-1) >= 1).all()
    assert (at_edge.sum(-1) >= K // 2).sum() > 50
    assert ((true.h > 1e-3).sum(-1) > 1).sum() > 50


def test_lead_is_beta_over_near_ties():
    f = draw("lead", dtype=torch.float64)
    ordered = f.sort(descending=True).values
    assert ((ordered[:, 0] - ordered[:, 1] - 1.5).abs() < 0.01).all()
    assert (ordered[:, 1] - ordered[:, -1] < 0.01).all()
    assert (ordered[:, 1] - ordered[:, -1] < 1e-14).any()


def test_ties_and_near_ties():
    ties = draw("ties").sort().values
    assert ((ties[:, 1:] == ties[:, :-1]).any(-1)).all()
    near = draw("near_ties")
    lowest = near.amin(-1, keepdim=True)
    units = (near - lowest) / (torch.finfo(torch.float32).eps * lowest)
    assert ((units >= 0) & (units <= 6)).all() and (units > 0).any(-1).all()


def test_ranges_of_the_extreme_families():
    info = torch.finfo(torch.float32)
    small, huge, masked = draw("subnormal"), draw("huge"), draw("masked")
    assert ((small != 0) & (small.abs() < info.smallest_normal)).any(-1).all()
    assert ((small.abs() <= info.smallest_normal).all(-1)).any()
    assert {1e30, info.max} <= {round(v, -24) if v < 1e31 else v for v in huge.abs().unique().tolist() if v > 1e29}
    assert (huge < -1e29).any() and (huge > 1e29).any()
    left = masked.isfinite().sum(-1)
    assert (left >= 1).all() and (left == 1).sum() > 5 and (left > K // 2).any()
    assert draw("offset").abs().min() > 900


def test_invalid_rows_have_no_truth_and_the_others_have_one():
    f = draw("invalid")
    assert valid_rows(f).tolist() == [True, False] * (N // 2)
    bad = f[1::2]
    assert bad.isnan().any() and (bad == torch.inf).any() and (bad == -torch.inf).all(-1).any()
    assert f[::2].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_middle_of_a_segment_is_exact(dtype):
    logits, labels = rows("segments", 63, K, 1.5, dtype, 3)
    a, middle, b = logits.double().reshape(21, 3, K).unbind(1)
    assert torch.equal(middle, (a + b) / 2) and not torch.equal(a, b)
    assert (labels.reshape(21, 3) == labels[::3, None]).all()


def test_ladders_and_clusters_reach_the_edge():
    f = draw("ladders", n=200, dtype=torch.float64)
    width = f.amax(-1) - f.amin(-1)
    assert (width == 1.5).any() and (width > 100).any()
    x = (lambda f: f - f.amax(-1, keepdim=True))(draw("clusters", dtype=torch.float64, n=200))
    counts = torch.stack([torch.isclose(x, torch.tensor(-1.5 * (1 - 2.0**-j)).double()).sum(-1) for j in range(4)])
    assert (counts.T == torch.tensor([1, 2, 4, 8])).all(-1).any()
