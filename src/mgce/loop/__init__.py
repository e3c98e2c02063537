"""What a training loop keeps, says of wrong labels, and tries."""

from mgce.loop.indexed_dataset import IndexedDataset
from mgce.loop.keeper import ModelKeeper
from mgce.loop.recipes import RecipeChoice, choose_recipe
from mgce.loop.verdict import Verdict

__all__ = ["IndexedDataset", "ModelKeeper", "RecipeChoice", "Verdict", "choose_recipe"]
