"""
Hugging Face
============

A tiny random language model trained by the Trainer of Hugging Face, and a pipeline that scores by the link.

Runs in seconds, without a download: `pip install transformers accelerate && python examples/hugging_face.py`.
"""

import tempfile

import matplotlib.pyplot as plt
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Trainer, TrainingArguments

from mgce import MGCELoss
from mgce.integrations.transformers import TrainerLoss, pipeline

WORDS = ["[PAD]", "[UNK]", "a", "film", "good", "fine", "great", "bad", "dull", "poor"]
words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")

# A review is bad if its word is among the last three; every fifth label is wrong.
texts = [f"a {WORDS[4 + i % 6]} film" for i in range(120)]
labels = [int(i % 6 >= 3) ^ int(i % 5 == 0) for i in range(120)]
rows = [{"input_ids": ids, "labels": label} for ids, label in zip(tokenizer(texts)["input_ids"], labels, strict=True)]

torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(WORDS),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    id2label={0: "good", 1: "bad"},
    label2id={"good": 0, "bad": 1},
)
model = BertForSequenceClassification(config)
criterion = MGCELoss(beta=1.4)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=10,
        learning_rate=0.01,
        gradient_accumulation_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    Trainer(model, arguments, train_dataset=rows, compute_loss_func=TrainerLoss(criterion, "sequence")).train()

classify = pipeline("text-classification", criterion.link, model=model, tokenizer=tokenizer, device="cpu")
for text in ("a great film", "a dull film"):
    print(text, classify(text, top_k=None))

# %%
# The probability that a review is bad, by its word. The first three words are good ones.

bad = [
    next(answer["score"] for answer in classify(f"a {word} film", top_k=None) if answer["label"] == "bad")
    for word in WORDS[4:]
]
plt.bar(WORDS[4:], bad)
plt.ylabel("probability of a bad review, h")
plt.show()
