import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from mgce.desk.tables.known_table import LABEL, known_table


def by_features(frame):
    """Return the labels by the values of all features, which tell the rows of this data set apart."""
    features = frame.drop(columns=LABEL)
    assert not features.duplicated().any()
    return pd.Series(frame[LABEL].to_numpy(), index=pd.MultiIndex.from_frame(features.astype(float)))


def test_only_the_labels_of_the_table_are_wrong_and_the_truth_is_that_of_the_data_set():
    known, bunch = known_table("wine", 0.3, seed=1), load_wine(as_frame=True)
    true = by_features(bunch.data.assign(**{LABEL: bunch.target_names[bunch.target].astype(object)}))
    pd.testing.assert_series_equal(by_features(known.new).sort_index(), true[by_features(known.new).index].sort_index())
    given = by_features(known.table)
    np.testing.assert_array_equal(known.right, true[given.index])
    assert len(known.table) + len(known.new) == len(true) and not set(given.index) & set(by_features(known.new).index)
    np.testing.assert_array_equal(known.is_wrong, given.to_numpy() != true[given.index].to_numpy())
    assert 0.15 < known.is_wrong.mean() < 0.45  # 40 of 133 are expected, with a standard deviation of 5.3


def test_a_seed_draws_the_same_again_and_another_seed_draws_others():
    one, same, other = (known_table("breast_cancer", 0.2, seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one.table, same.table)
    assert not one.new.equals(other.new) and set(other.classes) == set(load_breast_cancer().target_names)
    assert not known_table("iris", 0.0, 0).is_wrong.any()


@pytest.mark.parametrize(
    "arguments, words",
    [(("adult", 0.2, 0), "`dataset`"), (("iris", 1.5, 0), "`noise_rate`"), (("iris", 0.2, -1), "`seed`")],
)
def test_what_cannot_be_made_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        known_table(*arguments)
