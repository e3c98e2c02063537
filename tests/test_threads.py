"""The number of BLAS's threads is that of before, whatever runs side by side.

Each case has a process of its own: from threadpoolctl 3.8 on, the first thread that has set a limit is the only one
that can set another for as long as it lives, so where the test itself had set one, no other thread could do harm.
"""

import os
import subprocess
import sys
import threading

import pytest
import torch

from mgce._threads import SERIAL_WORK, one_torch_thread, threads_for

PROLOGUE = """
import threading
import numpy as np
from joblib import parallel_config
from scipy import linalg
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_info
from mgce import MGCEClassifier
from sklearn.model_selection import GridSearchCV
from mgce._threads import one_blas_thread
from mgce.linear import fit_linear

linalg.cho_factor(np.eye(2))
X, y = make_classification(200, 5, random_state=0)

def blas():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

def side_by_side(*functions):
    workers = [threading.Thread(target=function) for function in functions]
    for worker in workers: worker.start()
    for worker in workers: worker.join()

before = blas()
assert before and set(before) == {2}, before
"""
CASES = {
    "one block": """
with one_blas_thread():
    assert set(blas()) == {1}
    with one_blas_thread():
        assert set(blas()) == {1}
    assert set(blas()) == {1}
""",
    "a block that fails": """
try:
    with one_blas_thread():
        raise KeyError
except KeyError:
    pass
""",
    "the first to come is the first to go": """
inside, gone = threading.Event(), threading.Event()
def first():
    with one_blas_thread():
        inside.set()
        entered.wait()
def second():
    inside.wait()
    with one_blas_thread():
        entered.set()
        gone.wait()
entered = threading.Event()
a, b = threading.Thread(target=first), threading.Thread(target=second)
a.start(); b.start(); a.join(); gone.set(); b.join()
""",
    "the thread that came first lives on": """
inside, entered, gone, over = (threading.Event() for _ in range(4))
def first():
    with one_blas_thread():
        inside.set()
        entered.wait()
    gone.set()
    over.wait()
a = threading.Thread(target=first)
a.start(); inside.wait()
with one_blas_thread():
    entered.set()
    gone.wait()
found = blas()
over.set(); a.join()
assert found == before, found
""",
    "interior point": """
side_by_side(*[lambda b=b: fit_linear(X, labels=y, beta=b, lambda_=0.01, method="interior") for b in (1.2, 1.4, 2, 3)])
""",
    "first order": """
side_by_side(*[lambda b=b: fit_linear(X, labels=y, beta=b, lambda_=0.01, method="lbfgs") for b in (1.2, 1.4, 2.0, 3.0)])
""",
    "cross-validation": """
with parallel_config("threading"):
    GridSearchCV(MGCEClassifier(), {"beta": (1.4, 3.0)}, cv=3, n_jobs=3).fit(X, y)
""",
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_blas_has_its_threads_again(case):
    code = PROLOGUE + CASES[case] + "\nassert blas() == before, blas()\n"
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr


def test_pytorch_has_its_threads_again():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(KeyError), one_torch_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("work, threads", [(SERIAL_WORK, 1), (SERIAL_WORK + 1, 3)])
def test_small_steps_are_done_on_one_thread_and_large_ones_on_all(work, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with threads_for(work):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


FORKED = """
import os, signal, sys
import numpy as np
import torch
from mgce import MGCEClassifier

torch.set_num_threads(2)
X = np.random.default_rng(0).normal(size=(20_000, 3))
clf = MGCEClassifier(beta=2.0).partial_fit(X, (X[:, 0] > 0).astype(int), classes=[0, 1])
whole = clf.predict_proba(X)
torch.ones(4_000_000).exp()  # PyTorch's threads are there
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if np.array_equal(clf.predict_proba(X), whole) else 3)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_was_forked_after_use_can_predict():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)


def test_blocks_on_several_threads_put_back_the_number_of_before():
    before, seen, inside, gone = torch.get_num_threads(), [], threading.Event(), threading.Event()

    def first():
        torch.set_num_threads(3)
        with one_torch_thread():
            inside.set()
            gone.wait(10)
        seen.append(torch.get_num_threads())

    def second():
        inside.wait(10)
        with one_torch_thread():
            assert torch.get_num_threads() == 1
            with one_torch_thread():
                pass
            assert torch.get_num_threads() == 1
        seen.append(torch.get_num_threads())
        gone.set()

    workers = [threading.Thread(target=function) for function in (first, second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    torch.set_num_threads(before)
    assert seen == [3, 3]
