"""The page of heads on frozen features is that of the records, of whole training sets."""

from mgce_lab.studies import embeddings


def test_the_page_has_the_tables_of_the_records():
    assert embeddings.PAGE.read_text() == embeddings.whole_page()


def test_only_whole_sets_are_averaged():
    lines = [line for line in embeddings.records() if line["set"] == 1]
    one = embeddings.page(lines)
    more = [{**line, "set": 2, "accuracy": 0.0} for line in lines[:-1]]  # a set that lacks one fit
    assert embeddings.page(lines + more) == one
