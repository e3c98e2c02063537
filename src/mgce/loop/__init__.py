"""Keep the best weights of a training loop, describe its predictions of noisy labels, and choose its loss."""

from mgce.loop.indexed_dataset import IndexedDataset
from mgce.loop.keeper import ModelKeeper
from mgce.loop.recipes import RecipeChoice, choose_recipe
from mgce.loop.verdict import Verdict

__all__ = ["IndexedDataset", "ModelKeeper", "RecipeChoice", "Verdict", "choose_recipe"]
