from mgce.experiments.paper.result import Result, explained, to_csv, to_latex, to_text


def test_forms_of_a_result():
    cells = [{"η": "0.2", "accuracy": "87.00 ± 1.00"}]
    result = Result(
        "t", "T", "C", cells, [{"noise": 0.2, "seeds": 5, "x": None}], notes={"letter/0.2/ce/ece_h": "Far."}
    )
    assert to_csv(result) == b"noise,seeds,x\n0.2,5,\n"
    assert r"87.00 $\pm$ 1.00" in to_latex(result) and r"$\eta$" in to_latex(result)
    assert "- Far. Why." in to_text(explained(result, {"adult/*": "No.", "letter/*/ce/*": "Why."}))
