from collections import Counter

from mgce_lab.paper.published import published, published_row


def test_published_numbers():
    assert Counter(row["table"] for row in published()) == {"table1": 48, "table2": 18, "table3": 48}
    assert published_row("table3", "letter", "mgce", 0.4)["sce"] == [40.03, 0.33]
    assert published_row("table3", "mnist", "gce", 0.2)["sce"] == [17.3, 0.3]
    assert published_row("table3", "covertype_sample", "ce", 0.0)["accuracy"] == [77.28, 0.15]
    assert published_row("table1", "cifar100", "mgce@1", 0.4)["accuracy"] == [41.99, 1.45]
    assert published_row("table3", "wine", "ce", 0.0) == {}
