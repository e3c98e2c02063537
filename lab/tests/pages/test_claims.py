"""Each figure of README and of the pages comes from a record, by the list that `mgce_lab.studies claims` reads."""

import re

import pytest

from mgce_lab.studies import claim_list, claims
from mgce_lab.studies.claims import Claim, Exempt, Page, Printed, Table, Written
from test_transcripts import PAGES

HEAD = "# A page\n\n"


def errors_of(text, *entries, path="docs/a.md"):
    return claims.check({path: text}, entries)[1]


def test_every_figure_has_its_record():
    found, errors = claims.check(claims.pages(), claim_list.ENTRIES)
    assert errors == []
    assert sum(map(len, found.values())) > 1000
    assert {"README.md", "docs/paper.md", "docs/tables.md"} <= {
        path for path, figures in found.items() if figures or path
    }


def test_outputs_that_count_as_printed_are_printed_again_by_a_test():
    printed = {entry.page for entry in claim_list.ENTRIES if isinstance(entry, Printed)}
    assert printed == {path.relative_to(claims.ROOT).as_posix() for path in PAGES}


def test_a_figure_without_a_record_is_an_error():
    (error,) = errors_of(HEAD + "It reaches 91.5 %.\n")
    assert "docs/a.md, line 3: 91.5 has no record" in error


@pytest.mark.parametrize(("value", "wrong"), [(91.54, 0), (91.45, 0), (91.56, 1), (90.5, 1), (-91.5, 1)])
def test_a_number_is_that_of_the_record_at_the_precision_of_the_page(value, wrong):
    claim = Claim("docs/a.md", "It reaches {} % with 40 % wrong.", "r.json", lambda: value)
    errors = errors_of(HEAD + "It\nreaches 91.5 % with\n40 % wrong.\n", claim)
    assert len(errors) == wrong
    assert not wrong or "line 4: 91.5 is printed, but r.json gives" in errors[0]


def test_a_claim_needs_its_sentence_once_and_as_many_values_as_places():
    claim = Claim("docs/a.md", "It reaches {} %.", "r.json", lambda: 91.5)
    assert "found it 0 times" in errors_of(HEAD, claim)[0]
    assert "found it 2 times" in errors_of(HEAD + "It reaches 91.5 %. It reaches 91.5 %.\n", claim)[0]
    two = Claim("docs/a.md", "It reaches {} %.", "r.json", lambda: [91.5, 3])
    assert "1 places for 2 values" in errors_of(HEAD + "It reaches 91.5 %.\n", two)[0]


def test_a_claim_without_a_number_is_true_or_an_error():
    for value in (True, False):
        claim = Claim("docs/a.md", "It is the best.", "r.json", lambda value=value: value)
        assert errors_of(HEAD + "It is the best.\n", claim) == (
            [] if value else ["docs/a.md: not so by r.json: It is the best."]
        )


def test_cells_of_a_table_are_compared_by_row_and_column():
    text = HEAD + "| loss | 40 % | 60 % |\n|---|---:|---:|\n| `ce 2` | 74.6 |  |\n| **MAE** | 98.8 ± 0.1 | **95.2** |\n"
    values = {("`ce 2`", "40 %"): 74.61, ("**MAE**", "40 %"): (98.77, 0.12), ("**MAE**", "60 %"): 95.2}
    table = Table("docs/a.md", "| loss |", "r.json", lambda row, column: values[row, column])
    assert errors_of(text, table) == []
    values["**MAE**", "60 %"] = 95.3
    assert errors_of(text, table) == ["docs/a.md, line 6: 95.2 is printed, but r.json gives 95.300"]


def test_what_a_command_writes_has_to_stand_on_the_page():
    written = [
        Written("docs/a.md", "benchmarks.a", "r.json", lambda text=text: [text]) for text in ("| 1.5 |", "| 1.6 |")
    ]
    assert errors_of(HEAD + "| 1.5 |\n", written[0]) == []
    assert any("differs from what `benchmarks.a`" in error for error in errors_of(HEAD + "| 1.5 |\n", written[1]))


def test_an_exemption_that_exempts_nothing_is_an_error():
    assert errors_of(HEAD + "At 5 %.\n", Exempt("docs/a.md", "At 5 %", "an example")) == []
    assert any("nothing to exempt" in error for error in errors_of(HEAD, Exempt("docs/a.md", "At 5 %", "an example")))
    twice = [Exempt("*", re.compile(r"At \d"), "an example"), Exempt("docs/a.md", "At 5 %", "an example")]
    assert "this exempts no figure" in errors_of(HEAD + "At 5 %.\n", *twice)[0]
    assert errors_of(HEAD, Exempt("docs/b.md", "At 5 %", "an example")) == ["docs/b.md: no such page"]


@pytest.mark.parametrize(
    "sentence", ["It reaches 98.2 %.", "MGCE 98.2 % (best 98.9)", "An error rate of 5.", "beta 1.4: 81.3"]
)
def test_what_is_exempt_on_all_pages_leaves_results(sentence):
    everywhere = [entry for entry in claim_list.EXEMPT if entry.page == claims.EVERY]
    results = {"98.2", "98.9", "5", "81.3"} & {*re.findall(r"[\d.]*\d", sentence)}
    errors = errors_of(HEAD + sentence + "\n", *everywhere)
    assert len(errors) == len(results)


def figures(text, path="docs/a.md"):
    page = Page(path, text)
    return [page.text[start:end] for start, end in sorted(page.figures)]


def test_a_page_is_read_to_its_second_heading_and_readme_to_its_end():
    text = HEAD + "```sh\n# no heading\n```\n\nIt is 1.5.\n\n## Then\n\nIt is 2.5.\n"
    assert figures(text) == ["1.5"]
    assert figures(text, "README.md") == ["1.5", "2.5"]


def test_what_the_list_names_is_read_below_the_second_heading_too():
    text = HEAD + "## One\n\nIt reaches 91.5 %.\n\n| 1.5 |\n\nAt 5 %.\n"
    entries = [
        Claim("docs/a.md", "It reaches {} %.", "r.json", lambda: 91.5),
        Written("docs/a.md", "benchmarks.a", "r.json", lambda: ["| 1.5 |"]),
        Exempt("*", re.compile(r"At \d"), "an example"),
    ]
    found, errors = claims.check({"docs/a.md": text}, entries)
    assert [one.text for one in found["docs/a.md"]] == ["91.5", "1.5"] and errors == []


def test_figures_are_numbers_a_reader_sees_and_no_names():
    assert figures("CIFAR-10 by AVX2, v0.2.0 and `beta=1.4` [here](a-7.md). $x^2$ <!-- 3 -->\n") == []
    assert figures("1. From -0.8 to +1,234.5 and 1e-7: 40%, 2.4e-05.\n") == [
        "-0.8",
        "+1,234.5",
        "1e-7",
        "40",
        "2.4e-05",
    ]
    assert figures("Five points ahead in ten tables, one in six, half a minute.\n") == ["Five", "one in six", "half"]
    assert figures("```sh\nmgce fit --seed 7\n```\n\n```text\n97.2%\n```\n") == ["97.2"]
    assert figures("```console\n$ mgce fit --seed 7 \\\n    --x 8\nTook 18 s\n```\n") == ["18"]
    assert figures("```{image} a-5.png\n:alt: It falls to 72 %\n:width: 100%\n```\n") == ["72"]


def test_the_command_prints_each_figure_beside_its_record_and_fails_where_one_has_none(monkeypatch, capsys):
    claim = Claim("docs/a.md", "It reaches {} %", "results/r.json", lambda: 91.54)
    monkeypatch.setattr(claims, "pages", lambda: {"docs/a.md": HEAD + "It reaches 91.5 %.\n"})
    claims.main([claim])
    assert re.search(r" 3 +91\.5 +91\.540 +results/r\.json\n", capsys.readouterr().out)
    monkeypatch.setattr(claims, "pages", lambda: {"docs/a.md": HEAD + "It reaches 91.5 % or 3.\n"})
    with pytest.raises(SystemExit):
        claims.main([claim])
    assert "line 3: 3 has no record" in capsys.readouterr().out
