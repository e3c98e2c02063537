"""
A large vocabulary
==================

`LinearMGCELoss` is the last layer and the loss as one. It never stores all logits, and a class that no row gives any
probability takes no part in the backward pass; with 20,000 classes that is nearly every class, once training has begun.

Runs in seconds: `python examples/large_vocabulary.py`.
"""

import matplotlib.pyplot as plt
import torch

from mgce import LinearMGCELoss

CLASSES, WIDTH = 20_000, 64

# %%
# A toy language: each of 20,000 words has one that follows it, but one time in five another comes.

generator = torch.Generator().manual_seed(0)
follower = torch.randperm(CLASSES, generator=generator)
torch.manual_seed(0)
embedding = torch.nn.Embedding(CLASSES, WIDTH)
criterion = LinearMGCELoss(WIDTH, CLASSES, beta=1.4)  # was: nn.Linear(WIDTH, CLASSES) and nn.CrossEntropyLoss()
optimizer = torch.optim.Adam([*embedding.parameters(), *criterion.parameters()], lr=0.02)

losses, supports = [], []
for _ in range(30):
    word = torch.randint(200, (128,), generator=generator)  # of the 200 most frequent words
    other = torch.randint(CLASSES, (128,), generator=generator)
    target = torch.where(torch.rand(128, generator=generator) < 0.8, follower[word], other)
    optimizer.zero_grad()
    loss = criterion(embedding(word), target)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        h = criterion.link(criterion.linear(embedding(word[:16])))
    losses.append(loss.item())
    supports.append((h > 0).sum(1).double().mean().item())

with torch.no_grad():
    right = (criterion.linear(embedding.weight[:200]).argmax(1) == follower[:200]).double().mean()
print(f"Right followers of the 200 frequent words: {right:.0%}")
print(f"Classes with any probability: {supports[0]:.0f} at first, {supports[-1]:.1f} at the end, of {CLASSES}")

# %%
# The fewer classes have probability, the less there is to compute.

figure, axes = plt.subplots(layout="constrained")
axes.semilogy(supports, color="C0")
axes.set_xlabel("step")
axes.set_ylabel("classes with probability above 0", color="C0")
twin = axes.twinx()
twin.plot(losses, color="C1")
twin.set_ylabel("loss", color="C1")
plt.show()
