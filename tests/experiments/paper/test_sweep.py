from dataclasses import dataclass

from mgce.experiments.paper.specification import Place
from mgce.experiments.paper.sweep import check


@dataclass(frozen=True)
class Checked:
    dataset: str
    seen: list

    def check(self, place):
        self.seen.append((type(self).__name__, self.dataset))


class OtherKind(Checked):
    pass


def test_every_kind_of_run_is_checked_once_for_each_data_set():
    seen = []
    check([Checked("a", seen), OtherKind("a", seen), Checked("b", seen), Checked("a", seen)], Place())
    assert sorted(seen) == [("Checked", "a"), ("Checked", "b"), ("OtherKind", "a")]
