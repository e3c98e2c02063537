"""One process of the test of training on two devices, started by torchrun: `ddp_worker.py FOLDER`."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import torch
from images.tiny_images import SETTINGS, tiny_images
from torch.nn.modules.module import register_module_forward_hook

from mgce import MGCELoss
from mgce_lab.images import lightning
from mgce_lab.images.image_classifier import ImageClassifier


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    models, steps = [], []

    class Kept(ImageClassifier):
        def on_train_end(self) -> None:
            models.append({name: weight.detach().clone() for name, weight in self.network.named_parameters()})

    def count(module, args, output):
        if isinstance(module, MGCELoss):
            steps.append(len(args[1]))

    lightning.ImageClassifier = Kept
    register_module_forward_hook(count)
    settings = replace(SETTINGS, epochs=3)
    fit = lightning.train_images(settings, tiny_images(), folder, machine=lightning.Machine("cpu", devices=2))
    result = {"weights": models[0], "curves": fit.curves, "steps": steps[:7]}
    torch.save(result, folder / f"rank{os.environ['RANK']}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
