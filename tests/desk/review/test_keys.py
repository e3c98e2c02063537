import numpy as np
import pytest

from mgce.desk.review.keys import example_keys, is_long, number_text, packed


def test_keys_do_not_depend_on_the_order_or_on_labels():
    rng = np.random.default_rng(0)
    examples = [packed(f"{value}", "x" * (place % 3)) for place, value in enumerate(rng.integers(0, 9, 60))]
    labels = [f"{label}" for label in rng.integers(0, 3, 60)]
    keys = example_keys(examples, labels)
    assert len(set(keys)) == 60 and any(key.endswith("-2") for key in keys)
    order = rng.permutation(60)
    shuffled = example_keys([examples[i] for i in order], [labels[i] for i in order])
    # Examples that are equal in the label too are interchangeable: each key names the same content and label.
    content = {key: (example, label) for key, example, label in zip(keys, examples, labels, strict=True)}
    assert {key: (examples[i], labels[i]) for key, i in zip(shuffled, order, strict=True)} == content
    changed = example_keys(examples, ["same"] * 60)
    assert sorted(changed) == sorted(keys)


def test_no_two_contents_share_a_key_by_how_they_are_joined():
    contents = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], [], ["1:a"], ["a", ""], ["", "a"]]
    keys = example_keys([packed(*texts) for texts in contents], [""] * len(contents))
    assert len(set(keys)) == len(keys) and not any("-" in key for key in keys)
    assert all(key.startswith("r") for key in keys)  # no spreadsheet takes one for a number


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("1.50", "1.5"),
        ("0.30000000000000004", "0.3"),
        ("1e3", "1000"),
        (" a ", "a"),
        ("a\r\nb", "a\nb"),
        ("-0.0", "-0"),
        ("1234567890123456789.0", "1234567890123456789"),
        ("1.234567890123456789e18", "1234567890123456789"),
    ],
)
def test_what_programs_write_differently_is_one_text(ours, theirs):
    assert number_text(ours) == number_text(theirs)


def test_what_differs_stays_different():
    assert number_text("1.5") != number_text("1.500001") and number_text("a") != number_text("A")
    whole = ["1234567890123", "1234567890124", "1234567890123456788", "1234567890123456789", "9" * 40]
    assert [number_text(text) for text in whole] == whole


def test_whole_numbers_of_more_than_twelve_digits_are_long():
    for text in ("999999999999", "1000000000000"):  # twelve digits and thirteen
        for value in (float(text), -float(text)):
            assert is_long(value) == (len(text) > 12)
        assert number_text(f"-{text}.0") == f"-{text}"
    assert number_text("999999999999.5") == "1e+12" and not is_long(1e12 + 0.5)


def test_contents_that_only_rounding_makes_equal_get_keys_of_their_own():
    exact = ["a", "0.30000000000000004", "0.3", "b", "b"]
    rounded = ["a", "0.3", "0.3", "b", "b"]
    keys = example_keys(rounded, [""] * 5, lambda places: [exact[place] for place in places])
    assert len(set(keys)) == 5 and [key[-2:] == "-2" for key in keys] == [False, False, False, False, True]
    order = [2, 3, 0, 1, 4]
    again = example_keys(
        [rounded[i] for i in order], [""] * 5, lambda places: [exact[order[place]] for place in places]
    )
    assert again == [keys[i] for i in order]
    # With the other example gone, neither takes over its key.
    assert not {*example_keys(rounded[2:], [""] * 3)} & {*keys[1:3]}
