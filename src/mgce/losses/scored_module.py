"""Make a loss function and a loss module from a function that scores the classes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mgce.kernels.options import LossOptions, SoftmaxTerms
from mgce.losses.arguments import PLACE, with_class_dim, with_shared_arguments
from mgce.losses.base import Loss, python_number
from mgce.losses.fused import of_softmax
from mgce.losses.modules import MinimaxLink
from mgce.losses.records import Number, check_in_range
from mgce.losses.scored import scored_loss


class ScoredLoss(Loss):
    """The base class of loss modules that :func:`by_scores` makes.

    A base class derived from this one may define another link, or `terms_of` for a loss that has a kernel.
    """

    made: ClassVar[type[ScoredLoss]]  # the class itself, and none that derives from it
    function: ClassVar[Callable[..., Tensor]]
    defaults: ClassVar[Mapping[str, float]]  # of the hyperparameters, by name

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        dim: int | None = None,
        **own: Any,
    ) -> None:
        own = _with_defaults(type(self).__name__, self.defaults, own)
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing, dim=dim)
        for name, value in own.items():
            setattr(self, name, python_number(value))
        # The loss of one row, so that a wrong hyperparameter raises when the module is constructed.
        self.function(torch.zeros(2, device="cpu"), torch.tensor(0, device="cpu"), **self.hyperparameters())

    def hyperparameters(self) -> dict[str, Any]:
        """Return the arguments that this loss has and cross-entropy does not have, by name."""
        return {name: getattr(self, name) for name in self.defaults}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of logits against class indices or class probabilities."""
        return self.function(input, target, *self._options, dim=self.dim, **self.hyperparameters())

    @property
    def link(self) -> nn.Module:
        """The module that turns logits into probabilities: softmax over the `dim` of the loss."""
        return MinimaxLink(beta=float("inf"), dim=self.dim)

    @staticmethod
    def terms_of(**own: Any) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of this loss for the kernel of such losses; None if the kernel cannot run.

        The hyperparameters `own` are not checked yet: the kernel cannot run with wrong values.
        """
        return None

    def softmax_terms(self) -> SoftmaxTerms | None:
        """Return the `SoftmaxTerms` of a loss that needs only the label's softmax probability of a row; else None."""
        return self.terms_of(**self.hyperparameters()) if type(self) is self.made else None


def by_scores(
    name: str,
    scores: Callable[..., Tensor],
    example: tuple[str, str],
    *,
    base: type[ScoredLoss] = ScoredLoss,
    **numbers: Number,
) -> type[ScoredLoss]:
    """Make a loss module, and its loss function as the attribute `function`.

    Args:
        name: name of the module, such as `"FocalLoss"`.
        scores: a function `focal_scores(logits, wanted, **hyperparameters)`, from which the loss function has its name,
            `focal_loss`. It gives each class its score, minus its loss: see :func:`mgce.losses.scored.scored_loss`. Its
            docstring begins with "Compute", has the equation of the loss, and ends with the reference.
        example: hyperparameters, as they are written in a call, and the loss of the logits (1, 0) with the label 1.
        base: the class to derive the module from.
        numbers: the hyperparameters.
    """
    word = f"{scores.__name__.removesuffix('_scores')}_loss"
    defaults = {name: number.default for name, number in numbers.items()}
    ranges = {name: number.range for name, number in numbers.items()}

    def function(
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        dim: int | None = None,
        **own: Any,
    ) -> Tensor:
        own = _with_defaults(f"{word}()", defaults, own)
        options = LossOptions(ignore_index, reduction, label_smoothing)
        terms = base.terms_of(**own)
        if terms is not None:
            loss = of_softmax(*with_class_dim(input, target, dim), weight, options, terms)
            if loss is not None:
                return loss

        def checked(logits: Tensor, wanted: Any) -> Tensor:
            for own_name, limits in ranges.items():
                check_in_range(own_name, own[own_name], *limits)
            return scores(logits, wanted, **own)

        return scored_loss(checked, input, target, weight, options, dim)

    module: Any = type(name, (base,), {"function": staticmethod(function), "defaults": defaults, "_ranges": ranges})
    module.made = module
    function_of_loss: Any = function
    for made, called, of in ((function_of_loss, word, function), (module, name, ScoredLoss.__init__)):
        made.__name__ = made.__qualname__ = called
        made.__module__ = scores.__module__.rpartition(".")[0]  # the package, from where people import it
        made.__signature__ = _signature(of, numbers)
        made.__doc__ = _text(made, scores.__doc__ or "", numbers, example)
        with_shared_arguments(made)
    made_module: type[ScoredLoss] = module
    return made_module


def _with_defaults(called: str, defaults: Mapping[str, float], own: Mapping[str, Any]) -> dict[str, Any]:
    for name in own:
        if name not in defaults:
            raise TypeError(f"{called} got an unexpected keyword argument {name!r}")
    return {**defaults, **own}


def _signature(of: Callable[..., object], numbers: Mapping[str, Number]) -> inspect.Signature:
    """Return the signature of a function with its parameter `own` replaced by hyperparameters, without `self`."""
    found = inspect.signature(of)
    *shared, dim, _ = (parameter for name, parameter in found.parameters.items() if name != "self")
    own = [
        inspect.Parameter(name, dim.kind, default=number.default, annotation=type(number.default).__name__)
        for name, number in numbers.items()
    ]
    return found.replace(parameters=[*shared, *own, dim])


def _text(made: Callable[..., object], text: str, numbers: Mapping[str, Number], example: tuple[str, str]) -> str:
    """Return the docstring of a function or module, made from the text of its scores."""
    text, _, reference = inspect.cleandoc(text).partition("\n\nReference: ")
    own = [
        textwrap.fill(f"{name}: {number.meaning}", 112, subsequent_indent="    ") for name, number in numbers.items()
    ]
    row = "torch.tensor([[1.0, 0.0]]), torch.tensor([1])"
    if isinstance(made, type):
        text = text.removeprefix("Compute ")
        text = text[:1].upper() + text[1:]
        raises = "TypeError, ValueError, RuntimeError: if an argument has a type or a value not allowed above."
        call = f"{made.__name__}({example[0]})({row})"
    else:
        raises = (
            "TypeError, ValueError, RuntimeError, IndexError: as :func:`mgce_loss`. A wrong hyperparameter raises the\n"
            "    error of a wrong `beta`."
        )
        call = f"{made.__name__}({', '.join(filter(None, (row, example[0])))})"
    sections = {
        "Args": "\n".join([PLACE, *own, "dim: dimension of the classes; None means 1, or 0 for a single row."]),
        "Returns": 'A scalar; for `reduction="none"` a tensor of the shape of index targets.',
        "Raises": raises,
        "Example": f">>> {call}\ntensor({example[1]})",
    }
    if isinstance(made, type):
        del sections["Returns"]
    parts = [f"{title}:\n{textwrap.indent(lines, '    ')}" for title, lines in sections.items()]
    return textwrap.indent("\n\n".join([text, *parts, f"Reference: {reference}"]), "    ").strip() + "\n"
