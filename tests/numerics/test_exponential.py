import numpy as np
import pytest
import torch

from grids import grid
from mgce import functional
from mgce.numerics.root import expm1
from mgce_lab.losses import bi_tempered_loss

inf = float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("compiling", [False, True])
def test_every_digit_is_there(monkeypatch, compiling, dtype):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    size = torch.logspace(-30, 1.8, 400, dtype=torch.float64)
    x = torch.cat([-size, torch.zeros(1), size]).to(dtype)
    want = np.expm1(x.numpy().astype(np.longdouble))
    error = np.abs(expm1(x).numpy() - want)
    assert (error <= 4 * torch.finfo(dtype).eps * np.abs(want)).all()
    ends = expm1(torch.tensor([-inf, inf, torch.nan], dtype=dtype))
    assert ends[0] == -1 and ends[1] == inf and ends[2].isnan()


@pytest.mark.parametrize("compiling", [False, True])
def test_derivatives(monkeypatch, compiling):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    x = torch.tensor([-inf, -50.0, -2.0, -0.5, -1e-9, 0.0, 1e-9, 0.7, 3.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(expm1(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    for derivative in (first, second):
        torch.testing.assert_close(derivative, x.exp(), rtol=1e-14, atol=1e-15)


CALLS = {
    "mgce_loss": lambda f, y, beta: functional.mgce_loss(f, y, beta=beta, backend="torch"),
    "gce_loss": lambda f, y, beta: functional.gce_loss(f, y, beta=beta),
    "alpha_loss": lambda f, y, beta: functional.alpha_loss(f.softmax(-1), y, beta=beta),
    "normalizer": lambda f, y, beta: functional.normalizer(f, beta=beta),
    "bi_tempered_loss": lambda f, y, beta: bi_tempered_loss(f, y, t2=1 + 1 / beta),
}


@pytest.mark.slow
@grid(
    "name, kind",
    list(CALLS),
    [float, torch.tensor],
    keep=lambda name, kind: kind == (float if name in ("mgce_loss", "bi_tempered_loss") else torch.tensor),
)
def test_no_compiled_graph_has_the_function_whose_digits_a_compiler_loses(name, kind):
    beta = kind(1e6)
    if name == "bi_tempered_loss" and isinstance(beta, torch.Tensor):
        pytest.skip("its temperatures are floats")
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    f, y = torch.tensor([[0.5, 0.0, 0.25], [1.0, 3.0, 2.0]]), torch.tensor([0, 1])
    compiled = torch.compile(lambda f, y: CALLS[name](f, y, beta), backend=keep, fullgraph=True)
    torch.testing.assert_close(compiled(f, y), CALLS[name](f, y, beta))
    called = {getattr(node.target, "__name__", node.target) for node in graphs[0].graph.nodes}
    assert "sinh" in called and "expm1" not in called


@pytest.mark.slow
@pytest.mark.parametrize("beta", [pytest.param(100.0, marks=pytest.mark.nightly), 1e9])
def test_a_compiled_loss_of_large_beta(beta):
    """In vector code, of rows whose loss it lost altogether."""
    torch._dynamo.reset()
    f = torch.randn(1024, 3, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(lambda f: functional.normalizer(f, beta=beta))
    torch.testing.assert_close(compiled(f), functional.normalizer(f, beta=beta), rtol=1e-6, atol=1e-6)
