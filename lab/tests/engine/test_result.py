from mgce_lab.engine.result import Result, explained, to_csv, to_latex, to_text


def test_forms_of_a_result():
    cells = [{"η": "0.2", "accuracy": "87.00 ± 1.00"}]
    result = Result(
        "t", "T", "C", cells, [{"noise": 0.2, "seeds": 5, "x": None}], notes={"letter/0.2/ce/ece_h": "Far."}
    )
    assert to_csv(result) == b"noise,seeds,x\n0.2,5,\n"
    assert r"87.00 $\pm$ 1.00" in to_latex(result) and r"$\eta$" in to_latex(result)
    assert "- Far. Why." in to_text(explained(result, {"adult/*": "No.", "letter/*/ce/*": "Why."}))


def test_an_empty_line_parts_the_cells_of_a_table():
    cells = [{"data": data, "loss": loss, "x": "1"} for data in ("a", "b") for loss in ("ce", "mgce")]
    body = to_text(Result("t", "T", "C", cells, cells, parts=1)).split("\n\n")
    assert [len(part.splitlines()) for part in body] == [1, 3, 2, 1]
    assert len(to_text(Result("t", "T", "C", cells, cells)).split("\n\n")) == 3
