import torch

from mgce._seeds import derived_seed
from mgce_lab.seeds import derived_generator


def test_generators_are_those_of_the_seeds():
    first, second = derived_generator(0, "noise"), derived_generator(0, "noise")
    assert torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=second))
    assert first.initial_seed() == derived_seed(0, "noise")
