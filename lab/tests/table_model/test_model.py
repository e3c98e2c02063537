"""The transformer: who sees whom, and what it is given of a table."""

import pytest
import torch

from mgce_lab.table_model.model import PER_COLUMN, Sizes, TableModel, describe, grouped, predict
from mgce_lab.table_model.prior import Shape, draw_tables
from mgce_lab.table_model.train import batch_of

SIZES = Sizes(cell=32, cell_blocks=2, row=64, row_blocks=2, thinking=4, votes=2)


@pytest.fixture
def model():
    model = TableModel(SIZES)
    with torch.no_grad():
        model.classes.normal_()  # zeros at first: the heads would say nothing
    return model.eval()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return batch_of(draw_tables(3, Shape(30, 10, 5), generator), generator, torch.float32)


def test_no_row_sees_a_new_row(model, batch):
    context, new = model(batch.cells, batch.given, batch.n_classes, batch.names)
    changed = batch.cells.clone()
    changed[:, :, 30] += 1
    context_2, new_2 = model(changed, batch.given, batch.n_classes, batch.names)
    torch.testing.assert_close(context, context_2)
    torch.testing.assert_close(new[:, 1:], new_2[:, 1:])
    assert not torch.allclose(new[:, 0], new_2[:, 0])


def test_the_order_of_context_rows_does_not_matter(model, batch):
    order = torch.randperm(30)
    both = torch.cat([order, torch.arange(30, 40)])
    context, new = model(batch.cells, batch.given, batch.n_classes, batch.names)
    context_2, new_2 = model(batch.cells[:, :, both], batch.given[:, order], batch.n_classes, batch.names)
    torch.testing.assert_close(context[:, order], context_2, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(new, new_2, atol=1e-4, rtol=1e-4)


def test_classes_beyond_those_of_the_table_get_nothing(model, batch):
    for logits in model(batch.cells, batch.given, batch.n_classes, batch.names):
        beyond = torch.arange(10) >= batch.n_classes[:, None, None]
        assert torch.equal(logits.isinf(), beyond.expand_as(logits))


def test_both_ways_of_attention_within_a_row_agree(model, batch):
    one = model(batch.cells, batch.given, batch.n_classes, batch.names)
    model.column_by_matmul = True
    other = model(batch.cells, batch.given, batch.n_classes, batch.names)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_a_description_comes_from_the_context_alone():
    x = torch.randn(2, 12, 3)
    flags = torch.zeros(2, 3, dtype=torch.bool)
    before = describe(x, flags, 8)
    x[:, 8] *= 50
    after = describe(x, flags, 8)
    assert torch.equal(before[:, :8], after[:, :8])
    assert torch.equal(before[:, 9:], after[:, 9:])


def test_ranks_do_not_change_when_a_column_is_bent_and_missing_values_say_only_that():
    x = torch.randn(1, 20, 2)
    x[0, 3, 1] = torch.nan
    flags = torch.tensor([[False, True]])
    bent = torch.exp(x)
    one, other = describe(x, flags, 15), describe(bent, flags, 15)
    torch.testing.assert_close(one[..., 1], other[..., 1])
    assert one[0, 3, 1].tolist() == [0] * (PER_COLUMN - 2) + [1, 1]
    assert grouped(one[:, :, :1]).shape == (1, 1, 20, 2 * PER_COLUMN)


def test_a_rank_is_the_share_of_context_rows_below_less_the_share_above():
    x = torch.tensor([1.0, 2, 2, 5, 3]).view(1, 5, 1)
    rank = describe(x, torch.zeros(1, 1, dtype=torch.bool), 4)[0, :, 0, 1]
    torch.testing.assert_close(rank, torch.tensor([-0.75, 0, 0, 0.75, 0.5]))


def test_predictions_are_probabilities_of_the_callers_classes(model):
    model.classes.data.zero_()
    x = torch.randn(40, 5)
    given = torch.randint(0, 3, (30,))
    given[:3] = torch.arange(3)
    flags = torch.zeros(5, dtype=torch.bool)
    own, new = predict(model, x, flags, given, 3, torch.Generator().manual_seed(0))
    assert own.shape == (30, 3)
    assert new.shape == (10, 3)
    torch.testing.assert_close(torch.cat([own, new]).sum(1), torch.ones(40))
    # At first a context row's label adds e to its own class, before anything is learnt.
    assert own[torch.arange(30), given].mean() > 1 / 3


def test_a_column_with_one_value_changes_no_prediction(model):
    x = torch.randn(40, 6)
    x[3, 2] = torch.nan
    given = torch.arange(30) % 3
    flags = torch.zeros(6, dtype=torch.bool)
    before = predict(model, x, flags, given, 2, torch.Generator().manual_seed(0))
    constant = torch.full((40, 1), 7.0)
    constant[35] = 8.0  # new rows do not count
    constant[4] = torch.nan
    wider = torch.cat([x, constant], 1)
    after = predict(model, wider, torch.zeros(7, dtype=torch.bool), given, 2, torch.Generator().manual_seed(0))
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
