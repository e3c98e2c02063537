from mgce._seeds import derived_seed


def test_every_purpose_and_key_has_a_seed_of_its_own():
    keys = [(seed, purpose, *key) for seed in range(5) for purpose in ("noise", "split") for key in ((), (0,), (1, 2))]
    assert len({derived_seed(*key) for key in keys}) == len(keys)
    assert all(0 <= derived_seed(*key) < 2**32 for key in keys)
