"""Read and write files of features: .npy with a description beside it, .npz, .parquet and .safetensors.

The card in a file describes the encoder. Features of two files can be compared only if their cards have equal weights
and preprocessing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from mgce._arrow_sizes import check_parquet
from mgce._files import replacing
from mgce._limits import CHUNK_ROWS, EXPANDED_BYTES, TableSize, check_zip, read_at_most
from mgce._messages import expected, not_installed
from mgce._text import printable

PICTURES, TEXTS = "pictures", "texts"
KINDS = (PICTURES, TEXTS)
SHOWN = 12  # characters of a checksum in a sentence: enough to tell two apart
MOST_TEXT = 10_000  # characters of each field: a card that is longer was not written by this package


@dataclass(frozen=True)
class Card:
    """What a file of features says of the encoder that made them.

    Attributes:
        name: name of the encoder, as `--encoder` takes it; for a local folder, the last part of its path.
        kind: what the encoder encodes, one of `KINDS`.
        checksum: SHA-256 of the encoder's weights: see :func:`checksum_of`.
        preprocessing: in words, what is done to a picture or a text before the network, and to the network's output.
        width: the number of features.
    """

    name: str
    kind: str
    checksum: str
    preprocessing: str
    width: int

    def to_json(self) -> str:
        """Return the card as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Card:
        """Build a card from the fields that :meth:`to_json` writes.

        Raises:
            ValueError: if the fields are not those of a card.
        """
        texts = [fields.get(name) for name in ("name", "kind", "checksum", "preprocessing")]
        width = fields.get("width")
        sound = all(isinstance(text, str) and len(text) <= MOST_TEXT for text in texts)
        if not sound or fields["kind"] not in KINDS or not isinstance(width, int) or width < 1:
            raise ValueError(expected("encoder", "the card of an encoder", dict(fields)))
        name, kind, checksum, preprocessing = map(str, texts)
        return cls(name, kind, checksum, preprocessing, width)

    def require(self, other: Card | None) -> None:
        """Require features with the card `other` to come from this encoder, with its weights and its preprocessing.

        Features without a card pass: only their width can be compared.

        Raises:
            ValueError: if the features are of another encoder.
        """
        if other is None or (other.checksum, other.preprocessing) == (self.checksum, self.preprocessing):
            return
        if other.checksum != self.checksum:
            wanted, got = (f"{card.name} with the weights {card.checksum[:SHOWN]}" for card in (self, other))
        else:
            wanted, got = (f"{card.name} with this preprocessing: {card.preprocessing}" for card in (self, other))
        raise ValueError(expected("embeddings", f"features by the encoder of the model, {wanted}", got))


def checksum_of(model: torch.nn.Module) -> str:
    """Return the SHA-256 hash of a network's weights and buffers, with their names, whatever file they came from.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> _ = [torch.nn.init.zeros_(weight) for weight in layer.parameters()]
        >>> checksum_of(layer)[:12]
        '3a5ba2bb869b'
    """
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        raw = value.detach().cpu().contiguous()
        digest.update(f"{name} {raw.dtype} {tuple(raw.shape)}\n".encode())
        digest.update(raw.reshape(-1).view(torch.uint8).numpy().tobytes() if raw.numel() else b"")
    return digest.hexdigest()


NPY, NPZ, PARQUET, SAFETENSORS = ".npy", ".npz", ".parquet", ".safetensors"
SUFFIXES = (NPY, NPZ, PARQUET, SAFETENSORS)
FEATURES, NAMES, DESCRIPTION = "features", "name", "mgce"  # of arrays, columns and entries of metadata
MOST_WIDTH = 1 << 16  # numbers of a row: networks have thousands at most


@dataclass(frozen=True)
class Features:
    """The n rows of a file of features.

    Attributes:
        values: the features, shape (n, d), of any real type; those of an .npy file are mapped into memory.
        names: the name of each row, shape (n,); None if the file has no names.
        card: the card of the encoder that made the features; None if the file has no card.
        inputs: the checksum of what was encoded; "" if the file has none.
    """

    values: NDArray[Any]
    names: NDArray[np.str_] | None = None
    card: Card | None = None
    inputs: str = ""


def sidecar(path: Path) -> Path:
    """Return the path of the description beside an .npy file, which has room for numbers only."""
    return path.with_name(f"{path.name}.json")


def check_suffix(option: str, path: Path) -> None:
    """Require the name of a file of features to end in one of `SUFFIXES`.

    Raises:
        ValueError: if it ends otherwise.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(expected(option, f"the path of a file of features ({', '.join(SUFFIXES)})", str(path)))


def read_features(path: Path, option: str = "embeddings") -> Features:
    """Read a file of features, written by `mgce embed` or by any other program.

    The array or list column `features` is read. If there is none, the only array of two dimensions is read.

    Args:
        path: the file.
        option: the name of the option, for errors.

    Raises:
        FileNotFoundError: if there is no file at `path`.
        ValueError: if the file is damaged, or holds no numbers in rows of one width.
    """
    if not path.is_file():
        raise FileNotFoundError(expected(option, "the path of a file that exists", str(path)))
    check_suffix(option, path)
    try:
        values, names, described = READERS[path.suffix.lower()](path)
        features = _described(values, names, described)
    except ImportError:
        raise
    except Exception as error:  # a damaged file, which its reader meets with an exception of any type
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        sentence = f"Expected `{option}` to be a file of features, but {path.name} could not be read: {reason}"
        raise ValueError(printable(sentence)) from error
    return features


def _described(values: NDArray[Any], names: Any, described: Mapping[str, Any]) -> Features:
    """Return the values, names and description that a reader found as :class:`Features`, after checking them.

    Raises:
        ValueError: if the values are no features, or the names or the description do not fit.
    """
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not 1 <= values.shape[1] <= MOST_WIDTH:
        what = f"numbers of shape (n, d), d at most {MOST_WIDTH:,}"
        raise ValueError(f"it should hold {what}, but has {values.dtype} of shape {values.shape}")
    if names is not None:
        names = np.asarray(names, dtype=np.str_)
        if names.shape != (len(values),):
            raise ValueError(f"it should name {len(values):,} rows, but names {len(names):,}")
    encoder = described.get("encoder")
    card = None if encoder is None else Card.from_dict(encoder)
    if card is not None and card.width != values.shape[1]:
        raise ValueError(f"its encoder makes {card.width:,} features, but the file has {values.shape[1]:,}")
    return Features(values, names, card, str(described.get("inputs", "")))


def _read_npy(path: Path) -> tuple[NDArray[Any], Any, Mapping[str, Any]]:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    if not sidecar(path).is_file():
        return values, None, {}
    with sidecar(path).open("rb") as file:
        described = _document(read_at_most(file).decode())
    return values, described.get("names"), described


def _read_npz(path: Path) -> tuple[NDArray[Any], Any, Mapping[str, Any]]:
    with ZipFile(path) as archive:  # what is not compressed unpacks to no more than the file
        check_zip(archive, limit=max(EXPANDED_BYTES, path.stat().st_size))
    with np.load(path, allow_pickle=False) as arrays:
        values = arrays[_only({name: arrays[name].ndim for name in arrays.files})]
        names = arrays[NAMES] if NAMES in arrays.files else None
        described = _document(str(arrays[DESCRIPTION])) if DESCRIPTION in arrays.files else {}
    return values, names, described


def _read_parquet(path: Path) -> tuple[NDArray[Any], Any, Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        is_list = {field.name: 2 if _is_list(field.type) else 1 for field in schema}
        column = _only(is_list)
        wanted = [column, *([NAMES] if NAMES in schema.names else [])]
        check_parquet(file, TableSize(path.stat().st_size), wanted)
        values: NDArray[Any] | None = None
        names: list[Any] = []
        row = 0
        for batch in file.iter_batches(CHUNK_ROWS, columns=wanted):
            lists = batch.column(column)
            if isinstance(lists, pa.ChunkedArray):
                lists = lists.combine_chunks()
            block = _block(lists)
            if values is None:  # no more than the first row times the rows that the file has
                limit = max(EXPANDED_BYTES, path.stat().st_size * 2)
                if file.metadata.num_rows * block.shape[1] * block.itemsize > limit:
                    raise ValueError(f"its lists unpack to more than {limit:,} bytes")
                values = np.empty((file.metadata.num_rows, block.shape[1]), block.dtype)
            values[row : row + len(block)] = block
            names += batch.column(NAMES).to_pylist() if NAMES in wanted else []
            row += len(block)
        described = (schema.metadata or {}).get(DESCRIPTION.encode(), b"{}")
    return np.empty((0, 1)) if values is None else values, names or None, _document(described.decode())


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _block(lists: Any) -> NDArray[Any]:
    """Return an array of lists as rows of one matrix.

    Raises:
        ValueError: if a list is missing, or the lists have different lengths.
    """
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    n = len(lists)
    widths = lists.value_lengths().to_numpy(zero_copy_only=False) if n else np.zeros(0)
    if lists.null_count or n == 0 or (widths != widths[0]).any():
        raise ValueError("its lists should all be of one length, and none may be missing")
    return np.asarray(flat).reshape(n, -1)


def _read_safetensors(path: Path) -> tuple[NDArray[Any], Any, Mapping[str, Any]]:
    with _safetensors().safe_open(path, "numpy") as file:
        keys = [*file.keys()]
        name = _only({key: len(file.get_slice(key).get_shape()) for key in keys})
        described = (file.metadata() or {}).get(DESCRIPTION, "{}")
        document = _document(described)
        return file.get_tensor(name), document.get("names"), document


def _safetensors() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(not_installed("Files of safetensors need", "safetensors", "images")) from error
    return safetensors


def _only(dimensions: Mapping[str, int]) -> str:
    """Return the name of the array of features, which has two dimensions, from the dimensions of each array by name.

    Raises:
        ValueError: if there is no such array, or several.
    """
    two = [name for name, ndim in dimensions.items() if ndim == 2]
    if FEATURES in two:
        return FEATURES
    if len(two) != 1:
        raise ValueError(f"it should hold one array of rows, or one called {FEATURES!r}, but holds {len(two)}")
    return two[0]


def _document(text: str) -> Mapping[str, Any]:
    document = json.loads(text)
    return document if isinstance(document, dict) else {}


READERS = {NPY: _read_npy, NPZ: _read_npz, PARQUET: _read_parquet, SAFETENSORS: _read_safetensors}


def write_features(
    path: Path,
    blocks: Iterable[NDArray[Any]],
    dtype: str,
    names: Sequence[str],
    card: Card,
    inputs: str,
) -> None:
    """Write features to a file as a whole, or not at all; the suffix of the file decides its format.

    Args:
        path: the file.
        blocks: consecutive rows; for .npy and .parquet files, they need not fit into memory together.
        dtype: float16 or float32.
        names: the name of each row.
        card: the card of the encoder.
        inputs: the checksum of what was encoded.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = len(names), card.width
    described: dict[str, Any] = {"encoder": json.loads(card.to_json()), "inputs": inputs}
    suffix = path.suffix.lower()
    if suffix == NPY:
        with replacing(sidecar(path)) as temporary:
            temporary.write_text(json.dumps({**described, "names": list(names)}) + "\n", "utf-8")
    with replacing(path) as temporary:
        if suffix == NPY:
            _write_npy(temporary, blocks, shape, dtype)
        elif suffix == PARQUET:
            _write_parquet(temporary, blocks, shape[1], dtype, names, json.dumps(described))
        elif suffix == NPZ:
            arrays: dict[str, Any] = {FEATURES: _whole(blocks, shape, dtype), NAMES: np.array(names, dtype=np.str_)}
            np.savez(temporary, allow_pickle=False, **arrays, **{DESCRIPTION: np.array(json.dumps(described))})
        else:
            _safetensors()
            from safetensors.numpy import save_file

            metadata = {DESCRIPTION: json.dumps({**described, "names": list(names)})}
            save_file({FEATURES: _whole(blocks, shape, dtype)}, temporary, metadata=metadata)


def _whole(blocks: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: str) -> NDArray[Any]:
    whole, row = np.empty(shape, dtype), 0
    for block in blocks:
        whole[row : row + len(block)] = block
        row += len(block)
    return whole


def _write_npy(path: Path, blocks: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: str) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).tobytes())


def _write_parquet(
    path: Path, blocks: Iterable[NDArray[Any]], width: int, dtype: str, names: Sequence[str], described: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.list_(pa.float16() if dtype == "float16" else pa.float32(), width)
    fields = [pa.field(NAMES, pa.string()), pa.field(FEATURES, kind)]
    schema = pa.schema(fields, metadata={DESCRIPTION: described})
    row = 0
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for block in blocks:
            flat = pa.array(np.ascontiguousarray(block, dtype=dtype).reshape(-1))
            lists = pa.FixedSizeListArray.from_arrays(flat, width)
            named = pa.array(list(names[row : row + len(block)]), pa.string())
            writer.write_table(pa.Table.from_arrays([named, lists], schema=schema))
            row += len(block)
