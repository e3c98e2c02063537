"""Made tables: what the draw promises of labels, noise and values."""

import pytest
import torch

from mgce_lab.table_model.prior import MAX_CLASSES, NOISES, Shape, draw_tables

SHAPE = Shape(120, 40, 7)


@pytest.fixture(scope="module")
def tables():
    return draw_tables(96, SHAPE, torch.Generator().manual_seed(3))


def test_a_seed_gives_the_same_tables(tables):
    again = draw_tables(96, SHAPE, torch.Generator().manual_seed(3))
    for one, other in zip(tables, again, strict=True):
        assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))


def test_labels_are_classes_of_their_table(tables):
    assert tables.n_classes.min() == 2
    assert tables.n_classes.max() <= MAX_CLASSES
    for labels in (tables.given, tables.right):
        assert (labels >= 0).all()
        assert (labels < tables.n_classes[:, None]).all()


def test_values_are_numbers_or_missing_and_absent_columns_come_last(tables):
    assert not tables.x.isinf().any()
    absent = tables.x.isnan().all(1)
    assert torch.equal(absent, absent.cummax(-1).values)
    assert not (tables.is_categorical & absent).any()


def test_a_table_in_four_has_no_wrong_label_and_few_have_most_wrong(tables):
    wrong = (tables.given != tables.right[:, : SHAPE.context]).float().mean(1)
    none = tables.noise == NOISES.index("none")
    assert wrong[none].max() == 0
    assert 0.15 < none.float().mean() < 0.35
    assert wrong.max() < 0.7


def test_pair_noise_moves_each_class_to_one_other():
    tables = draw_tables(200, SHAPE, torch.Generator().manual_seed(5))
    for i in (tables.noise == NOISES.index("pair")).nonzero().flatten():
        right, given = tables.right[i, : SHAPE.context], tables.given[i]
        wrong = given != right
        assert torch.equal(given[wrong], (right[wrong] + 1) % tables.n_classes[i])


def test_noise_near_the_boundary_names_one_other_class_for_each_row_and_spares_none_of_the_kinds():
    tables = draw_tables(200, SHAPE, torch.Generator().manual_seed(5))
    wrong = (tables.given != tables.right[:, : SHAPE.context]).float().mean(1)
    for kind in range(1, len(NOISES)):
        assert wrong[tables.noise == kind].mean() > 0.03


def test_columns_say_something_of_the_right_label(tables):
    # The nearest row of the context, by columns alone, has the same class more often than a random row has.
    x = tables.x.nan_to_num(0)
    x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6)
    context, new = x[:, : SHAPE.context], x[:, SHAPE.context :]
    nearest = torch.cdist(new, context).argmin(-1)
    right = tables.right[:, : SHAPE.context]
    same = (right.gather(1, nearest) == tables.right[:, SHAPE.context :]).float().mean()
    by_chance = torch.nn.functional.one_hot(right, MAX_CLASSES).float().mean(1).square().sum(-1).mean()
    assert same > by_chance + 0.1
