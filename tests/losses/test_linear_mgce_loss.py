import itertools
import math

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from contracts.loss_contract import LossContract
from grids import grid, pairs
from mgce import LinearMGCELoss
from mgce.functional import linear_mgce_loss, mgce_loss
from mgce.kernels import dispatch
from mgce.losses import MinimaxLink, linear_chunks

inf = math.inf
N, D, K = 10, 4, 23


class IdentityHead(LossContract):
    """The contract of every loss, with the logits for input and the identity for head."""

    backend = "auto"

    @classmethod
    def loss(cls, input, target, **keywords):
        if not isinstance(input, torch.Tensor):
            return linear_mgce_loss(input, torch.eye(5), target, **keywords)
        rows = input.movedim(1, -1) if input.ndim > 1 else input
        if isinstance(target, torch.Tensor) and target.shape == input.shape and input.ndim > 1:
            target = target.movedim(1, -1)
        dtype = input.dtype if input.is_floating_point() else None
        head = torch.eye(rows.shape[-1], dtype=dtype, device=input.device)
        return linear_mgce_loss(rows, head, target, backend=cls.backend, chunk_rows=3, **keywords)

    def test_masked_class_is_dropped_class(self, logits):
        target = torch.tensor([0, 1, 2, 3, 0, 1, 2])
        head = torch.randn(5, 5, dtype=torch.float64)
        mask = torch.tensor([0.0, 0.0, 0.0, 0.0, -inf], dtype=torch.float64)
        masked = linear_mgce_loss(logits, head, target, mask, backend=self.backend)
        torch.testing.assert_close(masked, linear_mgce_loss(logits, head[:4], target))


class TestContractByTheKernel(IdentityHead):
    pass


class TestContractByTensorOperations(IdentityHead):
    backend = "torch"


class TestContractOfTheReference(IdentityHead):
    backend, compiler = "reference", "eager"


def problem(dtype=torch.float64, scale=1.0, bias=True):
    input = (torch.randn(N, D, dtype=dtype) * scale).requires_grad_()
    linear_weight = torch.randn(K, D, dtype=dtype, requires_grad=True)
    linear_bias = torch.randn(K, dtype=dtype, requires_grad=True) if bias else None
    return input, linear_weight, linear_bias, torch.randint(K, (N,))


def unfused(input, linear_weight, target, linear_bias=None, **keywords):
    return mgce_loss(F.linear(input, linear_weight, linear_bias), target, backend="torch", **keywords)


def value_and_gradients(loss, leaves, weight_of_rows):
    value = loss if loss.ndim == 0 else (loss * weight_of_rows).sum()
    return loss.detach(), *torch.autograd.grad(value, [leaf for leaf in leaves if leaf is not None])


@pytest.mark.slow
@pairs(
    "backend, beta, reduction, scale",
    ["cpu", "torch"],
    [1.0, 1.4, 5.0],
    ["mean", "sum", "none"],
    [0.1, 5.0],  # most classes have a gradient; few have
)
def test_equals_the_unfused_loss_under_every_option(backend, beta, reduction, scale):
    for bias, weighted, smoothed, target_kind in itertools.product(
        (False, True), (False, True), (0.0, 0.1), ("labels", "ignored", "probs")
    ):
        input, linear_weight, linear_bias, target = problem(scale=scale, bias=bias)
        if target_kind == "ignored":
            target[[2, 7]] = -100
        elif target_kind == "probs":
            target = torch.rand(N, K, dtype=torch.float64)
        keywords = {
            "weight": torch.rand(K, dtype=torch.float64) if weighted else None,
            "label_smoothing": smoothed,
            "reduction": reduction,
            "beta": beta,
        }
        leaves, share = (input, linear_weight, linear_bias), torch.rand(N, dtype=torch.float64)
        expected = value_and_gradients(unfused(input, linear_weight, target, linear_bias, **keywords), leaves, share)
        for chunk_rows in (None, 1, 3, N):
            loss = linear_mgce_loss(
                input, linear_weight, target, linear_bias, backend=backend, chunk_rows=chunk_rows, **keywords
            )
            for ours, theirs in zip(value_and_gradients(loss, leaves, share), expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("probs", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_at_infinity_it_is_linear_cross_entropy(reduction, probs, bias):
    theirs = getattr(F, "linear_cross_entropy", None)  # since PyTorch 2.13
    if theirs is None:
        pytest.skip("this PyTorch has no linear_cross_entropy")
    input, linear_weight, linear_bias, target = problem(bias=bias)
    keywords = {"weight": torch.rand(K, dtype=torch.float64), "reduction": reduction, "ignore_index": None}
    if probs:
        target = torch.softmax(torch.randn(N, K, dtype=torch.float64), -1)
    leaves, share = (input, linear_weight, linear_bias), torch.rand(N, dtype=torch.float64)
    expected = theirs(input, linear_weight, target, linear_bias=linear_bias, **keywords)
    ours = linear_mgce_loss(input, linear_weight, target, linear_bias, beta=inf, chunk_rows=3, **keywords)
    for a, b in zip(
        value_and_gradients(ours, leaves, share), value_and_gradients(expected, leaves, share), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_no_less_accurate_than_the_unfused_loss(dtype, backend, scale):
    input = (torch.randn(60, 32) * scale).to(dtype).requires_grad_()
    linear_weight = torch.randn(300, 32).mul(32**-0.5).to(dtype).requires_grad_()
    linear_bias = torch.randn(300).to(dtype).requires_grad_()
    target, leaves = torch.randint(300, (60,)), (input, linear_weight, linear_bias)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    truth = value_and_gradients(unfused(exact[0], exact[1], target, exact[2]), exact, None)
    plain = value_and_gradients(unfused(input, linear_weight, target, linear_bias), leaves, None)
    loss = linear_mgce_loss(input, linear_weight, target, linear_bias, backend=backend, chunk_rows=7)
    ours = value_and_gradients(loss, leaves, None)
    for one, other, true in zip(ours, plain, truth, strict=True):
        assert one.dtype == dtype
        yardstick = (other.double() - true).abs().max() + torch.finfo(dtype).eps * true.abs().max()
        assert (one.double() - true).abs().max() <= 1.5 * yardstick


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("scale", [0.1, 5.0])
def test_gathering_the_active_classes_changes_nothing(monkeypatch, share, scale, looked_into):
    input, linear_weight, linear_bias, target = problem(scale=scale)
    leaves = (input, linear_weight, linear_bias)
    expected = value_and_gradients(unfused(*leaves[:2], target, linear_bias), leaves, None)
    monkeypatch.setattr(linear_chunks, "SPARSE_SHARE", share)
    with Recorder() as seen:
        ours = value_and_gradients(linear_mgce_loss(*leaves[:2], target, linear_bias, chunk_rows=4), leaves, None)
    assert ("aten.index_add_.default" in seen.names) == (share == 1.0)
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.fixture
def looked_into(monkeypatch):
    """Under a dispatch mode the head is one operator, into which no mode can look: here it is to be looked into."""
    monkeypatch.setattr(dispatch, "is_traced", lambda: False)


class Recorder(TorchDispatchMode):
    """Records the shapes of the floating-point tensors that come into being, and the names of all operators."""

    def __init__(self):
        super().__init__()
        self.shapes, self.names = set(), set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.names.add(str(func))
        old = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            real = isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
            if real and tensor.untyped_storage().data_ptr() not in old:
                self.shapes.add(tuple(tensor.shape))
        return result

    @property
    def largest(self):
        return max(math.prod(shape) for shape in self.shapes)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("beta", [1.4, 5.0])
def test_no_tensor_is_larger_than_a_chunk_or_the_head(backend, reduction, beta, looked_into):
    n, d, k, rows = 100, 4, 500, 16
    input, linear_weight = torch.randn(n, d, requires_grad=True), torch.randn(k, d, requires_grad=True)
    target = torch.randint(k, (n,))
    with Recorder() as seen:
        linear_mgce_loss(
            input, linear_weight, target, reduction=reduction, beta=beta, backend=backend, chunk_rows=rows
        ).sum().backward()
    assert seen.largest == rows * k
    with Recorder() as seen:
        unfused(input, linear_weight, target, beta=beta)
    assert seen.largest == n * k  # the recorder would have seen them


def test_default_chunk_is_a_share_of_the_head(looked_into):
    input, linear_weight = torch.randn(300, 512), torch.randn(6000, 512)
    with Recorder() as seen, torch.no_grad():
        linear_mgce_loss(input, linear_weight, torch.randint(6000, (300,)))
    assert seen.largest == 64 * 6000 == linear_weight.numel() / 8


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_only_the_gradients_that_are_asked_for_are_computed(reduction, looked_into):
    input, linear_weight, linear_bias, target = problem()
    full = linear_mgce_loss(input, linear_weight, target, linear_bias, reduction=reduction).sum()
    expected = torch.autograd.grad(full, (input, linear_weight, linear_bias))
    for index, shape in ((0, (N, D)), (1, (K, D)), (2, (K,))):
        leaves = [
            leaf.detach().requires_grad_(i == index) for i, leaf in enumerate((input, linear_weight, linear_bias))
        ]
        with Recorder() as seen:
            loss = linear_mgce_loss(leaves[0], leaves[1], target, leaves[2], reduction=reduction, chunk_rows=3).sum()
            loss.backward()
        torch.testing.assert_close(leaves[index].grad, expected[index], rtol=1e-12, atol=1e-12)
        assert [leaf.grad is not None for leaf in leaves] == [i == index for i in range(3)]
        others = {(N, D), (K, D)} - {shape}
        assert shape in seen.shapes and not others & seen.shapes
    with Recorder() as seen, torch.no_grad():
        linear_mgce_loss(input, linear_weight, target, reduction=reduction, chunk_rows=3)
    assert not {(N, D), (K, D)} & seen.shapes


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_rows_are_dropped_before_the_head(reduction):
    input, linear_weight, _, target = problem()
    with torch.no_grad():
        input[3] = math.nan
    target[3] = -100
    loss = linear_mgce_loss(input, linear_weight, target, reduction=reduction)
    assert loss.isfinite().all()
    loss.sum().backward()
    assert (input.grad[3] == 0).all() and input.grad.isfinite().all() and linear_weight.grad.isfinite().all()
    target[:] = -100
    nothing = linear_mgce_loss(input, linear_weight, target, reduction="mean")
    assert nothing.isnan() and (torch.autograd.grad(nothing, linear_weight)[0] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", pytest.param("none", marks=pytest.mark.nightly)])
def test_derivatives_of_the_head(reduction):
    input, linear_weight, linear_bias, target = problem(scale=0.3)

    def value(*leaves):
        return linear_mgce_loss(leaves[0], leaves[1], target, leaves[2], beta=2.0, reduction=reduction, chunk_rows=4)

    leaves = (input, linear_weight, linear_bias)
    assert torch.autograd.gradcheck(value, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(value, leaves)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_retained_graph_gives_the_gradients_again(reduction):
    input, linear_weight, _, target = problem()
    loss = 3 * linear_mgce_loss(input, linear_weight, target, reduction=reduction).sum()
    first = torch.autograd.grad(loss, (input, linear_weight), retain_graph=True)
    second = torch.autograd.grad(loss, (input, linear_weight))
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_further_dimensions_are_rows():
    input, head = torch.randn(2, 3, D, requires_grad=True), torch.randn(K, D)
    target = torch.randint(K, (2, 3))
    flat = linear_mgce_loss(input.reshape(-1, D), head, target.reshape(-1), reduction="none")
    each = linear_mgce_loss(input, head, target, reduction="none")
    torch.testing.assert_close(each, flat.reshape(2, 3))
    probs = F.one_hot(target, K).float()  # classes last, where the head puts them
    torch.testing.assert_close(linear_mgce_loss(input, head, probs, reduction="none"), each)
    betas = torch.tensor([1.0, 1.4, inf])
    by_column = linear_mgce_loss(input, head, target, beta=betas, reduction="none")
    torch.testing.assert_close(by_column[:, 1], each[:, 1])
    torch.testing.assert_close(linear_mgce_loss(input[0, 0], head, target[0, 0], reduction="none"), each[0, 0])
    strided = torch.stack([target, target], -1)[..., 0]
    torch.testing.assert_close(linear_mgce_loss(input, head, strided), each.mean())


def test_autocast():
    input, linear_weight, linear_bias, target = problem(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_mgce_loss(input, linear_weight, target, linear_bias)
        expected = mgce_loss(F.linear(input, linear_weight, linear_bias), target)
    assert loss.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(loss, expected)
    gradients = torch.autograd.grad(loss, (input, linear_weight, linear_bias))
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, (input, linear_weight, linear_bias)), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    "error, match, changes",
    [
        (RuntimeError, r"Expected `linear_weight` to be of shape \(k, 4\)", {"linear_weight": torch.randn(3, 5)}),
        (RuntimeError, r"Expected `linear_weight` to be of shape \(k, 4\)", {"linear_weight": torch.randn(4)}),
        (RuntimeError, r"Expected `linear_weight`.*k >= 1", {"linear_weight": torch.randn(0, 4)}),
        (RuntimeError, "Expected `linear_weight` to be of the dtype", {"linear_weight": torch.randn(3, 4).double()}),
        (TypeError, "Expected `linear_weight` to be a torch.Tensor", {"linear_weight": [[1.0] * 4]}),
        (RuntimeError, r"Expected `linear_bias` to be of shape \(3,\)", {"linear_bias": torch.randn(4)}),
        (RuntimeError, "Expected `linear_bias` to be of the dtype", {"linear_bias": torch.randn(3).double()}),
        (RuntimeError, "Expected `input` to be a tensor with a dimension", {"input": torch.tensor(1.0)}),
        (ValueError, "Expected `chunk_rows` to be an integer of at least 1", {"chunk_rows": 0}),
        (TypeError, "Expected `chunk_rows` to be an integer", {"chunk_rows": 2.5}),
        (ValueError, "Expected `backend` to be one of", {"backend": "tpu"}),
        (RuntimeError, "Expected a call that backend 'cpu' can run", {"backend": "cpu", "beta": inf}),
        (ValueError, "Expected `beta` to be of a shape that broadcasts", {"beta": torch.ones(3)}),
        (RuntimeError, "Expected `target` to be class indices of dtype", {"target": torch.rand(2, 4)}),
        (RuntimeError, "Expected `weight` to be one number for each", {"weight": torch.rand(4)}),
        (IndexError, r"class indices in \[0, 3\).*but got 3", {"target": torch.tensor([0, 3])}),
        (IndexError, r"class indices in \[0, 3\).*but got -1", {"target": torch.tensor([0, -1]), "backend": "torch"}),
    ],
)
def test_errors(error, match, changes):
    arguments = {"input": torch.randn(2, 4), "linear_weight": torch.randn(3, 4), "target": torch.tensor([0, 1])}
    with pytest.raises(error, match=match):
        linear_mgce_loss(**(arguments | changes))


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_compiles_without_a_break(reduction):
    torch._dynamo.reset()
    leaves, target = [leaf.detach().requires_grad_() for leaf in problem(torch.float32)[:3]], torch.randint(K, (N,))

    def step(input, linear_weight, linear_bias):
        return linear_mgce_loss(2 * input, linear_weight, target, linear_bias, reduction=reduction, chunk_rows=3)

    graphs = []

    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph

    torch.compile(step, fullgraph=True, backend=keep)(*leaves)
    assert ("mgce.linear_loss_and_gradients" in graphs[0]) == (reduction == "mean")
    torch._dynamo.reset()
    compiled, share = torch.compile(step, fullgraph=True, backend="aot_eager"), torch.rand(N)
    ours = value_and_gradients(compiled(*leaves), leaves, share)
    for a, b in zip(ours, value_and_gradients(step(*leaves), leaves, share), strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*leaves), step(*leaves))


def test_operator_keeps_the_promises_of_an_operator():
    for backend in ("cpu", "torch"):
        for dtype, beta in ((torch.float32, (1.4, None)), (torch.float16, (0.0, torch.tensor(1.4).double()))):
            arguments = (*problem(dtype), None, -100, "mean", 0.1, *beta, 3, backend, [True, True, True])
            torch.library.opcheck(torch.ops.mgce.linear_loss_and_gradients, arguments)


def test_module_is_its_function():
    keywords = {"reduction": "sum", "ignore_index": 3, "label_smoothing": 0.1, "beta": 2.0, "weight": torch.rand(K)}
    module = LinearMGCELoss(D, K, bias=True, **keywords)
    assert set(module.state_dict()) == {"weight", "linear.weight", "linear.bias"}
    input, target = torch.randn(N, D), torch.randint(K, (N,))
    expected = linear_mgce_loss(input, module.linear.weight, target, module.linear.bias, **keywords)
    torch.testing.assert_close(module(input, target), expected, rtol=0, atol=0)
    assert LinearMGCELoss(D, K, dtype=torch.float64).linear.weight.dtype == torch.float64
    assert LinearMGCELoss(D, K, ignore_index=None).ignore_index == -100
    assert isinstance(module.link, MinimaxLink)
    probs = module.link(module.linear(torch.randn(2, 3, D)))
    torch.testing.assert_close(probs.sum(-1), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected `weight` to be one number for each of the 23 classes"):
        LinearMGCELoss(D, K, weight=torch.rand(4))
    with pytest.raises(ValueError, match="Expected `chunk_rows`"):
        LinearMGCELoss(D, K, chunk_rows=0)


def test_module_is_made_as_linear_cross_entropy_loss_is():
    if not hasattr(torch.nn, "LinearCrossEntropyLoss"):
        pytest.skip("this PyTorch has no LinearCrossEntropyLoss")
    theirs = torch.nn.LinearCrossEntropyLoss(D, K, bias=True, weight=torch.rand(K))
    ours = LinearMGCELoss(D, K, bias=True, weight=torch.rand(K), beta=inf)
    ours.load_state_dict(theirs.state_dict())
    input, target = torch.randn(N, D), torch.randint(K, (N,))
    torch.testing.assert_close(ours(input, target), theirs(input, target))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_loss_scale_beyond_float16_scales_the_gradients(compiled):
    head = LinearMGCELoss(8, 100)
    x, y = torch.randn(64, 8), torch.randint(100, (64,))
    loss = torch.compile(head, backend="aot_eager", fullgraph=True) if compiled else head
    gradients = []
    for scale in (1.0, 2.0**16):
        head.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = loss(x, y)
        (value * scale).backward()
        gradients.append(head.linear.weight.grad / scale)
    assert gradients[1].abs().max() > 1e-3
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-2, atol=1e-6)


@pytest.mark.slow
@grid(
    "beta, reduction, compiled",
    [1.4, 8.0, inf],
    ["mean", "none"],
    [False, True],
    keep=lambda beta, reduction, compiled: beta == 1.4 or not compiled,
)
def test_a_loss_scale_saves_the_small_gradients_of_float16(beta, reduction, compiled):
    """As unfused: no entry is lost that the loss of the logits keeps, and none is farther off."""
    if compiled and reduction == "none":
        pytest.skip("it is unfused then")
    n, k, d, scale = 2048, 400, 16, 2.0**16
    x, w, b = torch.randn(n, d) / 4, torch.randn(k, d) / 2, torch.randn(k) / 10
    halves, y = [leaf.half() for leaf in (x, w, b)], torch.randint(k // 50, (n,))  # most classes are no label

    def head(x, w, b):
        rows = linear_mgce_loss(x, w, y, b, beta=beta, reduction=reduction)
        return rows.float().mean() if reduction == "none" else rows

    def unfused(x, w, b):
        return mgce_loss(F.linear(x, w, b), y, beta=beta)

    def gradients(loss, dtype, scale):
        leaves = [leaf.to(dtype).requires_grad_() for leaf in halves]
        with torch.autocast("cpu", dtype=torch.float16):
            value = (torch.compile(loss, backend="aot_eager") if compiled else loss)(*leaves)
        return [grad.double() / scale for grad in torch.autograd.grad(value * scale, leaves)]

    true = gradients(unfused, torch.float64, 1.0)
    found = (gradients(loss, torch.float32, scale) for loss in (head, unfused))
    for ours, theirs, want in zip(*found, true, strict=True):
        assert theirs.isfinite().all() and not ((ours == 0) & (theirs != 0)).any()
        assert (ours - want).norm() <= 1.1 * (theirs - want).norm() + 1e-3 * want.norm()
