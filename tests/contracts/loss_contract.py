"""What every loss of this package promises: the semantics of cross_entropy, whatever stands for log_softmax.

A loss inherits the suite by naming its function; the expected values are built from its own
`reduction="none"` on one row at a time, so that the suite needs no other implementation.
"""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch.nn import functional as F

from grids import pairs

K = 5


class LossContract:
    """Inherit, and give `loss(input, target, **keywords)` as a static method, in float64 by default.

    What the formula of a loss forbids it says by the attributes.
    """

    nonnegative = True
    compiler = "inductor"
    drops_masked_classes = True  # a class of logit -inf might as well not be there

    @staticmethod
    def loss(input, target, **keywords):
        raise NotImplementedError

    @pytest.fixture
    def logits(self):
        return torch.randn(7, K, dtype=torch.float64)

    @pytest.fixture
    def target(self):
        return torch.tensor([0, 1, 2, 3, 4, 0, 1])

    def rows(self, logits, target):
        return torch.stack([self.loss(f, y, reduction="none") for f, y in zip(logits, target, strict=True)])

    def table(self, logits):
        """Return the loss of every class of every row, shape (N, K)."""
        return torch.stack([self.rows(logits, torch.full((len(logits),), y)) for y in range(K)], 1)

    def test_reductions(self, logits, target):
        rows = self.rows(logits, target)
        torch.testing.assert_close(self.loss(logits, target, reduction="none"), rows)
        torch.testing.assert_close(self.loss(logits, target, reduction="sum"), rows.sum())
        torch.testing.assert_close(self.loss(logits, target), rows.mean())

    def test_nonnegative_or_not_as_claimed(self):
        """Of rows that say little, of rows that are sure and right, and of rows that are sure and wrong."""
        least = min(self.table(scale * torch.randn(20, K, dtype=torch.float64)).min() for scale in (0.1, 1.0, 30.0))
        assert least >= 0 if self.nonnegative else least < -1

    def test_class_weights(self, logits, target):
        weight = torch.rand(K, dtype=torch.float64)
        rows = self.rows(logits, target) * weight[target]
        torch.testing.assert_close(self.loss(logits, target, weight=weight, reduction="none"), rows)
        mean = rows.sum() / weight[target].sum()
        torch.testing.assert_close(self.loss(logits, target, weight=weight), mean)

    @pairs("ignore_index, weighted, label_smoothing", [-100, 1, 4], [False, True], [0.0, 0.3])
    def test_ignored_rows_are_removed_rows(self, logits, target, ignore_index, weighted, label_smoothing):
        weight = torch.rand(K, dtype=torch.float64) if weighted else None
        target = torch.where(target == 1, ignore_index, target)
        kept = target != ignore_index
        keywords = {"weight": weight, "label_smoothing": label_smoothing}
        for reduction in ("mean", "sum"):
            masked = logits.clone().requires_grad_()
            value = self.loss(masked, target, ignore_index=ignore_index, reduction=reduction, **keywords)
            removed = self.loss(logits[kept], target[kept], reduction=reduction, **keywords)
            torch.testing.assert_close(value, removed)
            (gradient,) = torch.autograd.grad(value, masked)
            assert (gradient[~kept] == 0).all() and (gradient[kept] != 0).any()
        each = self.loss(logits, target, ignore_index=ignore_index, reduction="none", **keywords)
        assert (each[~kept] == 0).all()

    def test_nothing_kept_is_nan_for_the_mean_and_zero_for_the_sum_and_the_gradient(self, logits):
        target = torch.full((len(logits),), -100)
        weights = None, torch.rand(K, dtype=torch.float64)
        for label_smoothing, weight in itertools.product((0.0, 0.1), weights):
            keywords = {"label_smoothing": label_smoothing, "weight": weight}
            leaf = logits.clone().requires_grad_()
            mean = self.loss(leaf, target, **keywords)
            assert mean.isnan() and (torch.autograd.grad(mean, leaf)[0] == 0).all()
            assert self.loss(logits, target, reduction="sum", **keywords) == 0

    def test_empty_batch(self):
        logits, target = torch.zeros(0, K), torch.zeros(0, dtype=torch.int64)
        assert math.isnan(self.loss(logits, target))
        assert self.loss(logits, target, reduction="sum") == 0
        assert self.loss(logits, target, reduction="none").shape == (0,)

    def test_probability_targets_average_over_the_classes(self, logits):
        q = torch.softmax(torch.randn(7, K, dtype=torch.float64), -1)
        rows = (q * self.table(logits)).sum(-1)
        torch.testing.assert_close(self.loss(logits, q, reduction="none"), rows)
        torch.testing.assert_close(self.loss(logits, q), rows.mean())
        weight = torch.rand(K, dtype=torch.float64)
        weighted = (q * weight * self.table(logits)).sum(-1)
        torch.testing.assert_close(self.loss(logits, q, weight=weight), weighted.mean())

    def test_probability_targets_are_differentiable(self, logits):
        q = torch.softmax(torch.randn(7, K, dtype=torch.float64), -1).requires_grad_()
        (gradient,) = torch.autograd.grad(self.loss(logits, q, reduction="sum"), q)
        torch.testing.assert_close(gradient, self.table(logits))

    @pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
    def test_class_indices_have_the_loss_and_the_gradient_of_one_hot_targets(self, logits, target, scale):
        leaf = (scale * logits).requires_grad_()
        index, one_hot = (self.loss(leaf, t, reduction="none") for t in (target, F.one_hot(target, K).double()))
        torch.testing.assert_close(index, one_hot)
        got, want = (torch.autograd.grad(value.sum(), leaf)[0] for value in (index, one_hot))
        torch.testing.assert_close(got, want)

    def test_label_smoothing_mixes_with_the_uniform_target(self, logits, target):
        q = 0.8 * F.one_hot(target, K).double() + 0.2 / K
        smoothed = self.loss(logits, target, label_smoothing=0.2, reduction="none")
        torch.testing.assert_close(smoothed, self.loss(logits, q, reduction="none"))
        soft = self.loss(logits, F.one_hot(target, K).double(), label_smoothing=0.2)
        torch.testing.assert_close(soft, smoothed.mean())

    def test_weights_and_smoothing_together_as_in_cross_entropy(self, logits, target):
        weight = torch.rand(K, dtype=torch.float64)
        table = self.table(logits)
        nll = (weight[target] * table.gather(1, target[:, None])[:, 0]).sum() / weight[target].sum()
        smooth = (weight * table).sum() / weight[target].sum() / K
        value = self.loss(logits, target, weight=weight, label_smoothing=0.2)
        torch.testing.assert_close(value, 0.8 * nll + 0.2 * smooth)

    def test_further_dimensions_are_rows(self):
        logits = torch.randn(2, K, 3, 4, dtype=torch.float64)
        target = torch.randint(K, (2, 3, 4))
        flat_logits, flat_target = logits.movedim(1, -1).reshape(-1, K), target.reshape(-1)
        weight = torch.rand(K, dtype=torch.float64)
        for label_smoothing in (0.0, 0.1):
            keywords = {"weight": weight, "label_smoothing": label_smoothing}
            value = self.loss(logits, target, **keywords)
            torch.testing.assert_close(value, self.loss(flat_logits, flat_target, **keywords))
            each = self.loss(logits, target, reduction="none", **keywords)
            flat = self.loss(flat_logits, flat_target, reduction="none", **keywords)
            torch.testing.assert_close(each.reshape(-1), flat)
        q = torch.softmax(torch.randn_like(logits), 1)
        flat_q = q.movedim(1, -1).reshape(-1, K)
        torch.testing.assert_close(self.loss(logits, q), self.loss(flat_logits, flat_q))

    @pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
    @pytest.mark.parametrize("reduction", ["none", "mean"])
    def test_images_with_channels_last_have_the_gradient_of_others(self, reduction, label_smoothing):
        logits, target = torch.randn(2, K, 3, 4, dtype=torch.float64), torch.randint(K, (2, 3, 4))
        keywords = {"reduction": reduction, "label_smoothing": label_smoothing}
        last = logits.to(memory_format=torch.channels_last)
        assert last.stride() != logits.stride()
        moved = logits.movedim(1, -1).contiguous().requires_grad_()  # (N, d1, d2, C), as `dim=-1` has them
        got = [logits.requires_grad_(), last.requires_grad_(), moved.movedim(-1, 1)]
        values = [self.loss(f, target, **keywords) for f in got]
        want, *others = [torch.autograd.grad(value.sum(), f)[0] for value, f in zip(values, got, strict=True)]
        for value, gradient in zip(values, others, strict=False):
            torch.testing.assert_close(value, values[0])
            torch.testing.assert_close(gradient, want)

    def test_unbatched(self, logits, target):
        one = self.loss(logits[0], target[0])
        assert one.shape == ()
        torch.testing.assert_close(one, self.loss(logits[:1], target[:1]))
        for reduction in ("none", "sum"):  # of one row cross_entropy takes a target of shape (1,), too
            torch.testing.assert_close(self.loss(logits[0], target[:1], reduction=reduction), one)
        q = torch.softmax(logits[1], -1)
        torch.testing.assert_close(self.loss(logits[0], q), self.loss(logits[:1], q[None]))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_dtypes(self, logits, target, dtype):
        low = logits.to(dtype).requires_grad_()
        value = self.loss(low, target)
        assert value.dtype == dtype
        truth = self.loss(low.detach().double(), target)
        torch.testing.assert_close(value.double(), truth, rtol=torch.finfo(dtype).eps, atol=1e-6)
        (gradient,) = torch.autograd.grad(value, low)
        assert gradient.dtype == dtype
        assert self.loss(low, torch.softmax(logits, -1)).dtype == torch.float64

    def test_uint8_targets(self, logits, target):
        torch.testing.assert_close(self.loss(logits, target.byte()), self.loss(logits, target))

    @pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.nightly)])
    def test_gradcheck(self, logits, target, fast):
        """Of three rows, and those of second order in random directions; nightly of all rows by each pair of logits."""
        rows = 3 if fast else len(logits)
        logits, target = (logits[:rows] * 0.3).requires_grad_(), target[:rows]
        weight = torch.rand(K, dtype=torch.float64)

        def value(f):
            return self.loss(f, target, weight=weight, label_smoothing=0.1)

        assert torch.autograd.gradcheck(value, logits, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(value, logits, check_fwd_over_rev=True, fast_mode=fast)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
    def test_vmap_of_grad_is_a_gradient_for_each_sample(self, logits, target, weighted, label_smoothing):
        keywords = {"weight": torch.rand(K, dtype=torch.float64) if weighted else None}
        keywords["label_smoothing"] = label_smoothing
        together = torch.func.vmap(torch.func.grad(lambda f, y: self.loss(f, y, **keywords)))(logits, target)
        for gradient, f, y in zip(together, logits, target, strict=True):
            f = f.clone().requires_grad_()
            torch.testing.assert_close(gradient, torch.autograd.grad(self.loss(f, y, **keywords), f)[0])

    @pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
    def test_tensors_without_values_give_shapes(self, logits, target, label_smoothing):
        weight = torch.rand(K, dtype=torch.float64).to("meta")
        for f, y in ((logits, target), (logits[0], target[0])):
            leaf = f.to("meta").requires_grad_()
            value = self.loss(leaf, y.to("meta"), weight=weight, label_smoothing=label_smoothing)
            assert value.is_meta and value.shape == ()
            assert torch.autograd.grad(value, leaf)[0].shape == f.shape

    def test_nan_row_gives_nan(self, logits, target):
        logits[2, 1] = math.nan
        each = self.loss(logits, target, reduction="none")
        assert each.isnan().sum() == 1 and each[2].isnan()

    def test_masked_class_is_dropped_class(self, logits):
        masked = logits.clone()
        masked[:, 4] = -math.inf
        masked.requires_grad_()
        target = torch.tensor([0, 1, 2, 3, 0, 1, 2])
        value = self.loss(masked, target)
        if self.drops_masked_classes:
            torch.testing.assert_close(value, self.loss(logits[:, :4], target))
        (gradient,) = torch.autograd.grad(value, masked)
        assert (gradient[:, 4] == 0).all() and gradient.isfinite().all()

    @pytest.mark.parametrize(
        "error, match, input_shape, target, keywords",
        [
            (ValueError, "Expected `target` to be class indices of shape", (4, K), [0, 1, 2], {}),
            (RuntimeError, "Expected `target` to be class indices of shape", (2, K, 3), [[0, 1], [1, 1]], {}),
            (ValueError, "Expected `target` to be class indices of shape", (K,), [0, 1, 2], {}),
            (RuntimeError, "Expected `target` to be class indices of shape", (K,), [[1]], {}),
            (RuntimeError, "Expected `target` to be class indices of dtype", (4, K), [0.0, 1.0, 2.0, 3.0], {}),
            (IndexError, r"Expected `target` to be class indices in \[0, 5\).*but got 5", (2, K), [0, 5], {}),
            (IndexError, r"but got -1", (2, K), [0, -1], {}),
            (RuntimeError, "Expected `weight`.*5 classes", (2, K), [0, 1], {"weight": torch.ones(4)}),
            (RuntimeError, "Expected `weight`.*dtype", (2, K), [0, 1], {"weight": torch.ones(K).double()}),
            (RuntimeError, "Expected `label_smoothing`", (2, K), [0, 1], {"label_smoothing": 1.5}),
            (TypeError, "Expected `label_smoothing`.*but got None", (2, K), [0, 1], {"label_smoothing": None}),
            (TypeError, "Expected `ignore_index` to be an integer, but got 1.5", (2, K), [0, 1], {"ignore_index": 1.5}),
            (TypeError, "Expected `ignore_index` to be an integer", (2, K), [0, 1], {"ignore_index": True}),
            (TypeError, "Expected `label_smoothing`", (2, K), [0, 1], {"label_smoothing": Fraction(1, 10)}),
            (
                ValueError,
                "Expected `reduction` to be one of 'none', 'mean', 'sum'",
                (2, K),
                [0, 1],
                {"reduction": "avg"},
            ),
        ],
    )
    def test_errors_are_those_of_cross_entropy_and_say_more(self, error, match, input_shape, target, keywords):
        logits, target = torch.randn(input_shape), torch.tensor(target)
        with pytest.raises(error):
            F.cross_entropy(logits, target, **keywords)
        with pytest.raises(error, match=match):
            self.loss(logits, target, **keywords)

    def test_more_errors(self, logits, target):
        with pytest.raises(RuntimeError, match="Expected `target` to be floating point"):
            self.loss(logits, torch.zeros(7, K, dtype=torch.int64))
        with pytest.raises(RuntimeError, match="Expected `ignore_index` to be negative"):
            self.loss(logits, torch.rand(7, K), ignore_index=1)
        with pytest.raises(RuntimeError, match="Expected `target`.*torch.int32"):
            self.loss(logits, target.int())
        with pytest.raises(RuntimeError, match="Expected `input` to be a floating-point tensor"):
            self.loss(logits.long(), target)
        with pytest.raises(TypeError, match="Expected `input` to be a torch.Tensor, but got 'ndarray'"):
            self.loss(logits.numpy(), target)
        with pytest.raises(TypeError, match="Expected `target` to be a torch.Tensor, but got 'list'"):
            self.loss(logits, [0, 1])
        with pytest.raises(TypeError, match="Expected `weight` to be a tensor .*, but got 1.4"):
            self.loss(logits, target, weight=1.4)

    @pytest.mark.nightly
    def test_compile_fullgraph_with_a_compiled_gradient(self, target):
        self.compiler = "aot_eager"
        self.test_compile_fullgraph(target)

    @pytest.mark.slow
    def test_compile_fullgraph(self, target):
        torch._dynamo.reset()
        logits = torch.randn(7, K, requires_grad=True)
        weight = torch.rand(K)

        def step(f):
            return self.loss(f, target, weight=weight, label_smoothing=0.1)

        compiled, eager = torch.compile(step, fullgraph=True, backend=self.compiler)(logits), step(logits)
        torch.testing.assert_close(compiled, eager)
        (gradient,) = torch.autograd.grad(compiled, logits)
        torch.testing.assert_close(gradient, torch.autograd.grad(eager, logits)[0])
