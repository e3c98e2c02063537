import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

from mgce import MGCELoss
from mgce.functional import gce_loss, linear_mgce_loss, mgce_loss, minimax_probs
from mgce.kernels import cpu, dispatch
from mgce.kernels.dispatch import can_solve, choose, is_commonest, warn_once
from mgce.kernels.options import LossOptions

LOGITS, TARGET = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 0])


def test_auto_takes_the_kernel_where_it_can():
    assert choose("auto", LOGITS, TARGET, None, 1.4) == "cpu"
    assert choose("auto", LOGITS.bfloat16(), TARGET, None, 1.4) == "cpu"
    assert choose("torch", LOGITS, TARGET, None, 1.4) == "torch"


@pytest.mark.parametrize(
    "reason, arguments",
    [
        ("`beta` is a tensor", (LOGITS, TARGET, None, torch.tensor(1.4))),
        ("`beta` is inf", (LOGITS, TARGET, None, math.inf)),
        ("a tensor is on meta", (LOGITS.to("meta"), TARGET, None, 1.4)),
        ("`input` is empty", (LOGITS[:0], TARGET[:0], None, 1.4)),
        ("a derivative in `target`", (LOGITS, LOGITS.softmax(-1).requires_grad_(), None, 1.4)),
    ],
)
def test_a_named_backend_says_why_it_cannot_run_and_auto_goes_on(reason, arguments):
    with pytest.raises(RuntimeError, match=f"Expected a call that backend 'cpu' can run, but {reason}"):
        choose("cpu", *arguments)
    assert choose("auto", *arguments) == "torch"


def test_probabilities_are_computed_by_the_kernel_where_it_can():
    own = LOGITS.as_subclass(type("Own", (torch.Tensor,), {}))
    for rows, beta in ((LOGITS, 1.4), (LOGITS.double()[None], 1.0)):
        assert can_solve(rows, beta)
    for rows, beta in (
        *((LOGITS, torch.tensor(1.4)), (LOGITS, math.inf), (LOGITS, 2.0**64), (LOGITS[:0], 1.4)),
        *((LOGITS.to("meta"), 1.4), (own, 1.4), (LOGITS.to_sparse(), 1.4), (torch._neg_view(LOGITS), 1.4)),
    ):
        assert not can_solve(rows, beta)
    assert not any(vmap(lambda _: torch.tensor(can_solve(LOGITS, 1.4)))(torch.zeros(2)))
    with TorchDispatchMode():
        assert not can_solve(LOGITS, 1.4)
    with torch.autograd.forward_ad.dual_level():
        assert can_solve(LOGITS, 1.4)
        assert not can_solve(torch.autograd.forward_ad.make_dual(LOGITS, torch.ones_like(LOGITS)), 1.4)


def test_the_commonest_call():
    for options in (LossOptions(), LossOptions(0, "none", 1.0)):
        assert is_commonest(LOGITS, TARGET, None, options) and is_commonest(LOGITS, TARGET, WEIGHT, options)
        assert is_commonest(torch.nn.Parameter(LOGITS.double()), TARGET, None, options)
    assert is_commonest(LOGITS, LOGITS.softmax(-1), WEIGHT, LossOptions(-1, "none", 1.0))
    assert is_commonest(LOGITS.T, TARGET[:4], None, LossOptions())  # a kernel copies them


WEIGHT = torch.ones(4)
UNCOMMON = {
    "half": (LOGITS.half(), TARGET, None, LossOptions()),
    "one row": (LOGITS[0], TARGET[0], None, LossOptions()),
    "images": (LOGITS[..., None], TARGET[:, None], None, LossOptions()),
    "probabilities of another type": (LOGITS, LOGITS.double().softmax(-1), None, LossOptions()),
    "probabilities of other rows": (LOGITS, LOGITS[1:].softmax(-1), None, LossOptions()),
    "probabilities learnt": (LOGITS, LOGITS.softmax(-1).requires_grad_(), None, LossOptions()),
    "probabilities transposed": (LOGITS, LOGITS.T.softmax(0).T, None, LossOptions()),
    "probabilities, and an ignored class": (LOGITS, LOGITS.softmax(-1), None, LossOptions(0)),
    "bytes": (LOGITS, TARGET.byte(), None, LossOptions()),
    "integers": (LOGITS.long(), TARGET, None, LossOptions()),
    "a list": (LOGITS, TARGET.tolist(), None, LossOptions()),
    "other lengths": (LOGITS, TARGET[1:], None, LossOptions()),
    "no row": (LOGITS[:0], TARGET[:0], None, LossOptions()),
    "no class": (LOGITS[:, :0], TARGET, None, LossOptions()),
    "every second label": (LOGITS, TARGET.repeat_interleave(2)[::2], None, LossOptions()),
    "negated": (torch._neg_view(LOGITS), TARGET, None, LossOptions()),
    "negated labels": (LOGITS, torch._neg_view(-TARGET), None, LossOptions()),
    "without memory": (torch._efficientzerotensor((5, 4)), TARGET, None, LossOptions()),
    "sparse": (LOGITS.to_sparse(), TARGET, None, LossOptions()),
    "meta": (LOGITS.to("meta"), TARGET.to("meta"), None, LossOptions()),
    "meta labels": (LOGITS, TARGET.to("meta"), None, LossOptions()),
    "a subclass": (LOGITS.as_subclass(type("Own", (torch.Tensor,), {})), TARGET, None, LossOptions()),
    "no reduction": (LOGITS, TARGET, None, LossOptions(reduction="max")),
    "smoothing": (LOGITS, TARGET, None, LossOptions(label_smoothing=1.1)),
    "smoothing NaN": (LOGITS, TARGET, None, LossOptions(label_smoothing=math.nan)),
    "weights of another type": (LOGITS, TARGET, WEIGHT.double(), LossOptions()),
    "too many weights": (LOGITS, TARGET, torch.ones(5), LossOptions()),
    "weights learnt": (LOGITS, TARGET, WEIGHT.clone().requires_grad_(), LossOptions()),
    "weights with a step": (LOGITS, TARGET, torch.ones(8)[::2], LossOptions()),
    "weights negated": (LOGITS, TARGET, torch._neg_view(WEIGHT), LossOptions()),
    "meta weights": (LOGITS, TARGET, WEIGHT.to("meta"), LossOptions()),
}


@pytest.mark.parametrize("call", UNCOMMON.values(), ids=UNCOMMON)
def test_any_other_call_goes_through_the_checks(call):
    assert not is_commonest(*call)


@pytest.mark.parametrize("beta", [0.9, math.nan, 2.0**64, 2, torch.tensor(1.4)])
def test_a_beta_that_is_no_number_of_a_kernel_goes_through_the_checks(beta, monkeypatch):
    monkeypatch.setattr(dispatch, "is_commonest", None)
    for loss in (mgce_loss, gce_loss):
        try:
            loss(LOGITS, TARGET, beta=beta)
        except ValueError as error:
            assert "`beta`" in str(error) and beta != 2


def test_under_a_transform_no_call_is_of_the_commonest_kind(monkeypatch):
    def common():
        return is_commonest(LOGITS, TARGET, None, LossOptions())

    assert not any(vmap(lambda _: torch.tensor(common()))(torch.zeros(2)))
    with FakeTensorMode():
        assert not common()
    traced = []
    torch.jit.trace(lambda f: (traced.append(common()), f + 1)[1], LOGITS, check_trace=False)
    assert traced == [False]
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(LOGITS, torch.ones_like(LOGITS))
        assert not is_commonest(dual, TARGET, None, LossOptions()) and common()
    monkeypatch.setattr(cpu, "obstacle", lambda: "it is missing")
    assert not common()


def test_transforms_take_the_composite_path():
    with pytest.raises(RuntimeError, match=r"inside a transform of torch\.func"):
        vmap(lambda f, y: mgce_loss(f, y, backend="cpu"))(LOGITS, TARGET)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(LOGITS, torch.ones_like(LOGITS))
        with pytest.raises(RuntimeError, match="a forward-mode derivative is wanted"):
            mgce_loss(dual, TARGET, backend="cpu")


def test_the_cuda_kernel_says_why_it_cannot_run_here():
    with pytest.raises(RuntimeError, match="backend 'cuda' can run, but a tensor is on cpu; use backend='auto'"):
        choose("cuda", LOGITS, TARGET, None, 1.4)


def test_a_traced_call_is_one_node_of_its_graph():
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    for backend in ("auto", "cpu"):
        compiled = torch.compile(lambda f, y, b=backend: mgce_loss(f, y, backend=b), backend=keep, fullgraph=True)
        torch.testing.assert_close(compiled(LOGITS, TARGET), mgce_loss(LOGITS, TARGET, backend="torch"))
        assert torch.ops.mgce.loss_and_grad.default in [node.target for node in graphs.pop().graph.nodes]


def test_a_traced_transform_takes_the_composite_path():
    batch = torch.randn(3, 5, 4)
    compiled = torch.compile(vmap(lambda f: mgce_loss(f, TARGET)), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch), torch.stack([mgce_loss(f, TARGET) for f in batch]))


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="Expected `backend` to be one of 'auto', 'cpu', 'cuda', 'torch'"):
        choose("tpu", LOGITS, TARGET, None, 1.4)


WITHOUT_A_KERNEL = {
    "a loss": lambda: mgce_loss(LOGITS, TARGET),
    "a loss with a gradient": lambda: mgce_loss(LOGITS.clone().requires_grad_(), TARGET).backward(),
    "a head": lambda: linear_mgce_loss(LOGITS, torch.eye(4), TARGET),
    "probabilities": lambda: minimax_probs(LOGITS, beta=1.4),
    "a compiled loss": lambda: torch.compile(mgce_loss, backend="eager", fullgraph=True)(LOGITS, TARGET),
    "a compiled head": lambda: torch.compile(linear_mgce_loss, backend="eager", fullgraph=True)(
        LOGITS, torch.eye(4), TARGET
    ),
    "an exported loss": lambda: torch.export.export(MGCELoss(), (LOGITS, TARGET)).module()(LOGITS, TARGET),
}


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setattr(cpu, "obstacle", lambda: "it is missing; install a compiler")
    warn_once.cache_clear()
    yield
    warn_once.cache_clear()


@pytest.mark.parametrize("call", WITHOUT_A_KERNEL.values(), ids=list(WITHOUT_A_KERNEL))
def test_the_first_call_that_misses_the_kernel_says_what_to_install(missing, call):
    torch._dynamo.reset()
    with pytest.warns(
        RuntimeWarning, match="mgce runs without its compiled kernel.*: it is missing; install a"
    ) as seen:
        for _ in range(2):
            call()
            mgce_loss(LOGITS, TARGET)
    assert len([one for one in seen if one.category is RuntimeWarning]) == 1


def test_who_would_not_have_used_the_kernel_is_not_warned_that_it_is_missing(missing):
    """Warnings are errors here."""
    mgce_loss(LOGITS, TARGET, backend="torch")
    mgce_loss(LOGITS, TARGET, backend="reference")
    mgce_loss(LOGITS, TARGET, beta=math.inf)
    mgce_loss(LOGITS, TARGET, beta=torch.tensor(1.4))
    mgce_loss(LOGITS[:0], TARGET[:0], reduction="sum")
    gce_loss(LOGITS, TARGET)
    vmap(mgce_loss)(LOGITS, TARGET)
    with pytest.raises(RuntimeError, match="it is missing; install a compiler; use backend='auto'"):
        mgce_loss(LOGITS, TARGET, backend="cpu")
    torch.compile(mgce_loss, backend="eager", fullgraph=True)(LOGITS, TARGET, backend="torch")
