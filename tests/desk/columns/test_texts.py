import re

import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.kinds import Columns
from mgce.desk.columns.texts import is_text, words_on_average

RNG = np.random.default_rng(0)
WORDS = re.findall(r"\w+", "the card was not accepted at my bank and I want to know why this payment is pending")
HEX = "abcdefghijkl"
HAN = "我的银行卡没有被接受请告诉我为什么这笔付款还在等待中"


def drawn(words, n, least, most, between=" "):
    return [between.join(RNG.choice(words, RNG.integers(least, most))) for _ in range(n)]


def frame_of(values):
    return pd.DataFrame({"c": pd.Series(values, dtype=object), "y": ["a", "b"] * (len(values) // 2)})


TEXTS = {
    "sentences": drawn(WORDS, 100, 3, 12),
    "with line breaks": drawn(WORDS, 100, 3, 12, "\n"),
    "chinese": drawn(list(HAN), 100, 6, 20, ""),
    "some missing": [None, *drawn(WORDS, 99, 3, 12)],
    "with numbers of tickets": [f"{text} #{i}" for i, text in enumerate(drawn(WORDS, 100, 3, 6))],
    "a few rows": drawn(WORDS, 30, 5, 12),
    "cyrillic": drawn(["карта", "не", "принята", "в", "банке", "почему", "платёж", "ещё", "не", "прошёл"], 100, 3, 9),
}
OTHERS = {
    "identifiers": [f"AX-{i:05}-{i * 7919 % 997}" for i in range(100)],
    "words that name rows": [f"order{i:04} lot{i * 31:05}" for i in range(100)],
    "words of one row each": [" ".join("".join(RNG.choice(list(HEX), 9)) for _ in range(3)) for _ in range(100)],
    "addresses of mail": [f"user{i}@mail.example" for i in range(100)],
    "links": [f"https://example.org/page/{i}/item" for i in range(100)],
    "answers of several words": RNG.choice(["strongly agree", "neither agree nor disagree", "do not know"], 100),
    "single words": [f"name{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(100)],
    "numbers with units": [f"{i} kg" for i in range(100)],
    "dates": [f"{1 + i % 28} May {1990 + i % 30} at noon" for i in range(100)],
    "too few": drawn(WORDS, 10, 5, 12),
    "names of places": RNG.choice([f"{'北南西东'[i % 4]}京" for i in range(60)], 100),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_recognised(name):
    values = TEXTS[name]
    assert Columns.of(frame_of(values), "y").kinds == {"c": "text"}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_text_stays_what_it_is(name):
    values = list(OTHERS[name])
    assert Columns.of(frame_of(values), "y").kinds == {"c": "category"}
    assert Columns.of(frame_of(values), "y", text=["c"]).kinds == {"c": "text"}


def test_the_user_has_the_last_word():
    frame = frame_of(TEXTS["sentences"]).assign(n=range(100))
    assert Columns.of(frame, "y", category=["c", "n"]).kinds == {"c": "category", "n": "category"}
    assert Columns.of(frame, "y", text=["n"]).kinds == {"c": "text", "n": "text"}


def test_the_guess_does_not_depend_on_the_order_of_rows():
    long = pd.Series(drawn(WORDS, 3000, 1, 4) + [f"row{i}x one" for i in range(3000)], dtype=object)
    assert len({is_text(long.sample(frac=1, random_state=seed)) for seed in range(4)}) == 1


def test_words_are_counted():
    assert words_on_average(pd.Series(["one two", "one two three four", None])) == 3
    assert words_on_average(pd.Series(["I am a cat", "5 cats, B2 and x-y"])) == 2.5  # two; three: cats, and, x-y
    assert words_on_average(pd.Series(["東京駅前"])) == 2
    assert words_on_average(pd.Series(["東京 to 京"])) == 2.5
    assert words_on_average(pd.Series([None, None], dtype=object)) == 0
