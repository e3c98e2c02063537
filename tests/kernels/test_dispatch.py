import math

import pytest
import torch
from torch.func import vmap

from mgce.functional import mgce_loss
from mgce.kernels.dispatch import choose

LOGITS, TARGET = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 0])


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
