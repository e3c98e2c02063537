import math

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from mgce import GCELoss, LinearMGCELoss, MGCELoss, TrimmedLoss
from mgce.functional import mgce_loss, minimax_probs
from mgce.integrations.transformers import TrainerLoss, pipeline
from mgce.losses import MinimaxLink

QUICK = True
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3, "film": 4, "a": 5, "the": 6, "was": 7}
BETA = 1.4


@pytest.fixture(autouse=True)
def _no_datasets(monkeypatch):
    """The folder tests/datasets is on the path here, and the Trainer takes it for the library of that name."""
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)


def tokenizer():
    base = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    base.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=base, pad_token="[PAD]", unk_token="[UNK]")


def model_of(task):
    torch.manual_seed(0)
    if task == "causal_lm":
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        return LlamaForCausalLM(LlamaConfig(vocab_size=12, **sizes))
    kind = {"sequence": BertForSequenceClassification, "token": BertForTokenClassification}[task]
    config = BertConfig(vocab_size=12, num_labels=3, **SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    return kind(config)


def rows_of(task, n=8):
    """Return rows of the same length with different numbers of labels that count."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for i in range(n):
        ids = torch.randint(2, 12, (6,), generator=generator)
        labels = {"sequence": torch.tensor(i % 3), "token": ids % 3, "causal_lm": ids.clone()}[task]
        if task != "sequence":
            labels[: i % 5] = -100
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def step(task, tmp_path, batch_size, accumulation, criterion):
    """Take one step of plain SGD over eight rows, and give the change of all weights."""
    model = model_of(task)
    before = torch.cat([p.detach().clone().flatten() for p in model.parameters()])
    arguments = TrainingArguments(
        output_dir=tmp_path,
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulation,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    trainer = Trainer(model, arguments, train_dataset=rows_of(task), compute_loss_func=TrainerLoss(criterion, task))
    trainer.train()
    return torch.cat([p.detach().flatten() for p in model.parameters()]) - before


def plain_step(task, criterion):
    """The same step by hand: the mean over all labels that count of all eight rows."""
    model, rows = model_of(task), rows_of(task)
    logits = model(input_ids=torch.stack([row["input_ids"] for row in rows])).logits
    labels = torch.stack([row["labels"] for row in rows])
    if task == "causal_lm":
        logits, labels = logits[:, :-1], labels[:, 1:]
    loss = criterion(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    loss.backward()
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else -p.grad.flatten() for p in model.parameters()]
    )


@pytest.mark.parametrize("task", ["sequence", "token", "causal_lm"])
@pytest.mark.parametrize("batch_size, accumulation", [(8, 1), (2, 4)])
def test_a_step_is_the_same_however_rows_are_split(task, batch_size, accumulation, tmp_path):
    got = step(task, tmp_path, batch_size, accumulation, MGCELoss(beta=BETA))
    want = plain_step(task, MGCELoss(beta=BETA))
    assert want.abs().max() > 1e-3
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


def test_at_infinity_it_is_the_loss_of_the_model_itself():
    model, rows = model_of("causal_lm"), rows_of("causal_lm")
    ids, labels = (torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels"))
    outputs = model(input_ids=ids, labels=labels)
    torch.testing.assert_close(TrainerLoss(MGCELoss(beta=math.inf), "causal_lm")(outputs, labels), outputs.loss)


def test_other_losses_weights_tuples_and_integers():
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, -100, 2])
    criterion = GCELoss(torch.tensor([1.0, 2.0, 3.0]), reduction="none")
    got = TrainerLoss(criterion)((logits,), labels, 7)
    torch.testing.assert_close(got, criterion(logits, labels).sum() / 7)
    assert criterion.reduction == "none"
    half = TrainerLoss()({"logits": logits.bfloat16()}, labels)
    torch.testing.assert_close(half, mgce_loss(logits.bfloat16().float(), labels))
    with pytest.raises(ValueError, match="Expected `labels`"):
        TrainerLoss()((logits,), None)
    with pytest.raises(ValueError, match="Expected `task`"):
        TrainerLoss(task="regression")


def test_without_gradients_or_after_eval_a_loss_is_evaluated():
    """The Trainer puts its model into evaluation mode, and not the loss; but it computes no gradients there."""
    logits, labels = 3 * torch.randn(64, 3), torch.arange(64) % 3
    mean = F.cross_entropy(logits, labels)
    criterion = TrimmedLoss(nn.CrossEntropyLoss(reduction="none"), 0.4, 3)
    loss = TrainerLoss(criterion)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            torch.testing.assert_close(loss((logits,), labels), mean)
    torch.testing.assert_close(loss.eval()((logits,), labels), mean)
    assert loss.train()((logits,), labels) < 0.7 * mean and loss.criterion.training
    assert criterion.recent.count.sum() == 64  # of the one call that trained: the window is that of the loss given


def test_a_loss_that_does_not_do_what_it_says_is_refused():
    class Liar(nn.CrossEntropyLoss):
        def forward(self, input, target):
            return F.cross_entropy(input, target)

    with pytest.raises(ValueError, match="`criterion` to be a loss that gives one number for each of 4 labels"):
        TrainerLoss(Liar())((torch.zeros(4, 3),), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(TypeError, match="Expected `criterion` to be a loss of logits"):
        TrainerLoss(LinearMGCELoss(3, 3))


@pytest.mark.parametrize("beta", [1.2, math.inf])
def test_scores_of_text_classification_are_h(beta):
    model = model_of("sequence").eval()
    model.classifier.bias.data += torch.tensor([2.0, 1.0, -3.0])
    classify = pipeline("text-classification", MinimaxLink(beta), model=model, tokenizer=tokenizer(), device="cpu")
    inputs = tokenizer()("the film was bad", return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        want = minimax_probs(model(**inputs).logits[0], beta=beta)
    scores = {entry["label"]: entry["score"] for entry in classify("the film was bad", top_k=None)}
    got = [scores[f"LABEL_{y}"] for y in range(3)]
    np.testing.assert_allclose(got, want.numpy(), atol=1e-6)
    if beta == 1.2:
        assert min(got) == 0


@pytest.mark.parametrize("link", [None, MGCELoss(beta=BETA).link, MinimaxLink(BETA, dim=-1)])
def test_scores_of_token_classification_are_h(link):
    model = model_of("token").eval()
    tag = pipeline("token-classification", link, model=model, tokenizer=tokenizer(), device="cpu")
    with torch.no_grad():
        ids = tokenizer()("good film", return_tensors="pt", return_token_type_ids=False)
        want = minimax_probs(model(**ids).logits[0], beta=BETA).max(-1).values
    np.testing.assert_allclose([entry["score"] for entry in tag("good film")], want.numpy(), atol=1e-6)
