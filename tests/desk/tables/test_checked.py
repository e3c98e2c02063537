import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mgce import certify
from mgce._rounding import percent_up
from mgce.desk.review.bounds import ErrorBound, error_bound, share_left_sequence
from mgce.desk.review.decision_file import Decision
from mgce.desk.review.draws import draw
from mgce.desk.review.sheet import chosen
from mgce.desk.review.suspect_file import Suspect
from mgce.desk.tables.checked import DEPENDENT, OTHER_DRAWS, Checked, _about, findings
from mgce.desk.tables.fit import About, FitPlan, run
from mgce.desk.tables.report import against_given, headline, page, wrong_labels
from mgce.desk.tables.rows import split_rows
from mgce.desk.tables.suspects_report import checked_sentences, widths

PLAN = FitPlan("y", model="linear")
N = 160


@pytest.fixture(scope="module")
def right():
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    return pd.DataFrame({"x": x, "z": rng.normal(size=N), "y": np.where(x > 0, "yes", "no")})


@pytest.fixture(scope="module")
def frame(right):
    wrong = np.random.default_rng(1).random(N) < 0.15
    return right.assign(y=np.where(wrong, np.where(right["y"] == "yes", "no", "yes"), right["y"]))


@pytest.fixture(scope="module")
def first(frame):
    return run(frame, PLAN)


def decide(first, frame, right, rows, draws, skipped=()):
    """Decide as a person who knows the right labels: on rows as suspects, and on the first draws."""
    number = first.listing.draws.number
    shown = {**{row: False for row in rows}, **{row: True for row in np.argsort(number)[:draws] if row not in rows}}
    made = []
    for row, is_random in shown.items():
        given, label = frame["y"][row], right["y"][row]
        what = ("skip", "") if row in skipped else ("keep" if label == given else "suggestion", label)
        q = first.listing.draws.probability[row]
        made.append(Decision(first.listing.keys[row], given, *what, is_random, int(number[row]), float(q), f"n{row}"))
    return made


def test_decisions_mend_what_is_learnt_from_and_leave_what_is_measured(first, frame, right):
    rows = first.judgement.suspects(20).tolist()
    decisions = decide(first, frame, right, rows, 60)
    second = run(frame, PLAN, about=About(decisions=decisions))
    split, learnt = split_rows(frame, PLAN), second.checked.mended(split_rows(frame, PLAN))
    decided = {row for row, key in enumerate(first.listing.keys) if key in {one.key for one in decisions}}
    assert set(np.flatnonzero(learnt.labels != frame["y"])) == {
        row for row in decided if frame["y"][row] != right["y"][row]
    }
    np.testing.assert_array_equal(learnt.held_out, split.held_out)
    assert second.certificate.n == len(split.held_out) and second.findings.changed == len(second.checked.labels) > 5
    # The accuracy is against the labels as given, those of the rows held out that were checked too.
    given, known = frame["y"][split.held_out], second.measured.predict(split.selected.iloc[split.held_out]).label
    assert second.quality["accuracy"] == pytest.approx((given.to_numpy() == known).mean())
    probs = second.measured.pipeline.predict_proba(split.selected.iloc[split.held_out])
    assert second.certificate.argmax_error == certify(split.target[split.held_out], probs).argmax_error
    assert not set(second.judgement.suspects(N)) & decided and (second.judgement.wrong[list(decided)] == 0).all()
    assert second.judgement.share.disagreement < first.judgement.share.disagreement


def test_the_bounds_are_those_of_the_draws_counted_by_hand(first, frame, right):
    number, q = first.listing.draws.number, first.listing.draws.probability
    order = np.argsort(number)
    rows = first.judgement.suspects(12).tolist()
    skipped = {order[3], order[17]} - set(rows)
    second = run(frame, PLAN, about=About(decisions=decide(first, frame, right, rows, 60, skipped)))
    last = max(number[row] for row in order[:60] if row not in rows)
    held_out = split_rows(frame, PLAN).held_out
    labels = second.measured.predict(frame[["x", "z"]]).label
    ours = [row for row in order if row in held_out]
    answers = [None if row in skipped else right["y"][row] for row in ours if number[row] <= last]
    assert second.findings.error == error_bound(answers, labels[ours], frame["y"][ours]) and len(answers) >= 20
    found = [row in skipped or (row not in rows and frame["y"][row] != right["y"][row]) for row in order[:last]]
    left = share_left_sequence(found, q[order[:last]].tolist(), N, least=q.min())[-1] + len(skipped) / N
    assert second.findings.left == pytest.approx(left) and second.findings.drawn == last
    wrong = [row in skipped or frame["y"][row] != right["y"][row] for row in order[:last]]
    assert second.findings.wrong == sum(wrong) > sum(found)  # suspects that were mended before they were drawn, too
    settled = [row for row in order[:last] if row not in skipped]
    before = np.average(frame["y"][settled] != right["y"][settled], weights=1 / q[settled])
    assert second.findings.before == pytest.approx(before)
    others = [row for row in order[:last] if row not in {*rows, *skipped}]
    off = np.average(frame["y"][others] != right["y"][others], weights=1 / q[others])
    assert second.findings.about == pytest.approx(off * (N - len(others) - len(rows)))
    mended = second.checked.mended(split_rows(frame, PLAN)).labels
    assert (mended != right["y"]).mean() <= second.findings.left
    error = second.findings.error
    right_on = error.n - error.errors
    share = f"roughly {right_on / error.n:.0%}"
    said = f"The model is right on {right_on} of {error.n} checked rows ({share}) that it had not seen, of {last} drawn"
    assert headline(second).startswith(said) and "if the decisions are right" in headline(second)
    assert "1 of them" in headline(second) or error.unsettled != 1
    assert "agrees with the label given before the review" in against_given(second)
    assert "2 skipped. Skipped rows keep their given label" in " ".join(checked_sentences(second)) or len(skipped) != 2


def test_one_figure_says_how_many_labels_are_still_wrong(first, frame, right):
    second = run(frame, PLAN, about=About(decisions=decide(first, frame, right, [], 40)))
    for left in (second.share.upper / 2, 0.9):
        fit = replace(second, findings=replace(second.findings, left=left, before=0.2))
        said, shown = wrong_labels(fit), page(fit, "t.csv", "t.mgce").decode()
        assert said.count("%") == 1 and percent_up(min(left, second.share.upper)) in said
        assert ("Both are by" in said) == (left < second.share.upper) != ("the bound by the model, if" in said)
        assert "mgce clean says which labels" in said and shown.count(said) == 1
    assert "mgce clean" not in wrong_labels(first) and "left" not in wrong_labels(first)


def test_while_suspects_are_left_the_estimate_counts_them(first, frame, right):
    """A person stops after some rows of a page. The mean over draws is how many labels are wrong and not found."""
    n, wrong = 1000, np.arange(1000) < 170
    suspects = np.r_[0:140, 200:260]  # the page's, in its order: most of the wrong ones, and 60 right ones
    found = {10: [], 200: []}
    for seed in range(400):
        draws = draw([f"k{row:04}" for row in range(n)], np.arange(n) % 4 == 0, seed)
        order = np.argsort(draws.number)[:100].tolist()
        for looked_at in found:
            shown, m = suspects[:looked_at].tolist(), 40 if looked_at == 10 else 100
            decided = {}
            for row in {*shown, *order[:m]}:
                is_random, is_both = row in order[:m] and row not in shown, row in order[:m] and row in suspects
                label = "b" if wrong[row] else "a"
                decided[row] = Decision(
                    str(row), "a", "other" if wrong[row] else "keep", label, is_random, 1, 0.1, "", is_both
                )
            about = _about(order[:m], decided, draws, 0.05)
            found[looked_at].append(about - sum(wrong[row] for row in range(n) if row not in decided))
    for errors in found.values():
        assert abs(np.mean(errors)) < 12


def test_a_row_that_was_drawn_and_is_a_suspect_counts_as_both_wherever_it_came_first(first, frame, right):
    """So that all that tell of the same decisions name the same numbers: the page, a script and the fit."""
    shown = [
        Suspect(rank, "", "", first.listing.keys[row], "", "other", "", False, int(draw), 0.1, ())
        for rank, (row, draw) in enumerate(zip(range(N), first.listing.draws.number, strict=True), 1)
    ]
    place = {key: row for row, key in enumerate(first.listing.keys)}
    rows, told = split_rows(frame, PLAN), []
    labels = first.measured.predict(rows.selected.iloc[rows.held_out]).label
    page_of = chosen(shown, 40, 40)
    for each in (page_of, [replace(one, is_random=one.suspect.draw <= 40) for one in page_of]):
        made = []
        for one in each:
            row = place[one.suspect.key]
            what = "keep" if frame["y"][row] == right["y"][row] else "suggestion"
            why = one.is_random, one.suspect.draw, 0.1, "", one.is_both
            made.append(Decision(one.suspect.key, frame["y"][row], what, right["y"][row], *why))
        checked = Checked.of(made, frame, PLAN)
        told.append(findings(checked, rows, first.listing.draws, labels, 0.05, independent=True))
    assert sum(one.is_random for one in page_of) < 40 == told[0].drawn == told[1].drawn
    assert (told[0].error, told[0].wrong, told[0].about) == (told[1].error, told[1].wrong, told[1].about)


def test_draws_that_are_missing_count_as_errors(first, frame, right):
    decisions = decide(first, frame, right, [], 40)
    whole = run(frame, PLAN, about=About(decisions=decisions)).findings
    some = run(frame, PLAN, about=About(decisions=[one for one in decisions if one.draw % 4])).findings
    assert 10 < some.drawn <= 39 and 10 < some.error.n <= whole.error.n
    assert some.error.unsettled > 0 and some.error.upper > whole.error.upper and some.left > whole.left


@pytest.mark.parametrize("skips", [pytest.param(0.0, marks=pytest.mark.nightly), 0.1])
def test_rows_that_were_never_shown_are_no_errors_and_the_bounds_hold(skips):
    """A simulated person decides on the first draws, and on rows that another command drew and marks as random too."""
    n, delta, repetitions = 160, 0.2, 300
    rows = SimpleNamespace(frame=pd.DataFrame(index=range(n)), held_out=np.arange(0, n, 4))
    keys, held_out, missed = [f"{row:03d}" for row in range(n)], np.arange(n) % 4 == 0, np.zeros(2, int)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        right = rng.integers(0, 2, n)
        given = np.where(rng.random(n) < 0.2, 1 - right, right)
        guess = np.where(rng.random(n) < 0.1, 1 - right, right)
        rows.labels = pd.Series(given.astype(str))
        drawn, asked = draw(keys, held_out, seed), int(rng.integers(30, 60))
        found = {}
        for row, number in enumerate(drawn.number.tolist()):
            # From the rows behind, those that the person has looked up depend on the labels: the bounds hold for all.
            if number <= asked or rng.random() < (0.1 if given[row] == right[row] else 0.4):
                what = ("skip", "") if rng.random() < skips else ("other", str(right[row]))
                q = float(drawn.probability[row])
                found[row] = Decision(keys[row], str(given[row]), *what, True, number, q)
        alone = {row: one for row, one in found.items() if one.draw <= asked}
        told, first = (
            findings(Checked(some, rows.frame, len(some)), rows, drawn, guess[::4].astype(str), delta, independent=True)
            for some in (found, alone)
        )
        error, settled = told.error, [row for row, one in found.items() if one.label]
        left = given != right
        left[settled] = False
        missed += error.upper < 0.1 - 1e-9, told.left < left.mean() - 1e-9
        assert told.left <= first.left and error.upper <= first.error.upper + 0.05
        assert error.errors <= error.upper * error.n and first.drawn == asked
        assert told.drawn <= asked + 12 and error.unsettled <= (3 if skips == 0 else 8)
        assert np.count_nonzero(drawn.number[::4] <= asked) == first.error.n <= error.n
    assert (missed <= stats.binom.ppf(0.999, repetitions, delta)).all()


def test_a_table_that_was_sorted_or_mended_gives_the_same(first, frame, right):
    decisions = decide(first, frame, right, first.judgement.suspects(12).tolist(), 40)
    decided = {one.key: one for one in decisions}
    mended = [
        decided[key].label if key in decided else label
        for key, label in zip(first.listing.keys, frame["y"], strict=True)
    ]
    expected = run(frame, PLAN, about=About(decisions=decisions))
    for other in (frame.sample(frac=1, random_state=3), frame.assign(y=mended).sort_values("x")):
        found = run(other, PLAN, about=About(decisions=decisions))
        assert found.findings == replace(expected.findings, changed=found.findings.changed)
        assert found.certificate == expected.certificate
        np.testing.assert_allclose(found.model.pipeline[-1].coef_, expected.model.pipeline[-1].coef_, rtol=1e-6)


def test_another_table_is_refused_with_counts(first, frame, right):
    decisions = decide(first, frame, right, [], 30)
    edited = frame.copy()
    rows = [first.listing.keys.index(one.key) for one in decisions]
    edited.loc[rows[:3], "x"] += 1
    edited.loc[rows[3:5], "y"] = "maybe"
    with pytest.raises(ValueError, match="Expected `checked` to be 30 decisions") as error:
        run(edited, PLAN, about=About(decisions=decisions))
    assert "3 on rows that are not found" in str(error.value)
    assert "2 on rows whose label was changed since (" in str(error.value)
    assert f"not found ({', '.join(one.name for one in decisions[:3])}): they were deleted" in str(error.value)
    with pytest.raises(ValueError, match=r"(29|30) on rows that are not found \(.*, .*, .* and (26|27) more\)"):
        run(frame.assign(x=frame["x"] + 1), PLAN, about=About(decisions=decisions))


@pytest.mark.parametrize(
    ("id", "why"),
    [
        (None, "they were deleted, or other cells than the label were changed"),
        ("z", "they were deleted, their names were changed, or --id is another than before"),
    ],
)
def test_why_a_row_is_not_found_depends_on_what_it_is_known_by(frame, id, why):
    with pytest.raises(ValueError, match=re.escape(f"1 on rows that are not found (n7): {why}.")):
        Checked.of([Decision("r0", "yes", "keep", "yes", name="n7")], frame, replace(PLAN, id=id))


def test_bounds_are_foretold_for_as_many_rows_as_are_left():
    def said(after):
        error = ErrorBound(n=20, errors=2, unsettled=0, upper=0.35, delta=0.05, after=after)
        return widths(SimpleNamespace(plan=PLAN, findings=SimpleNamespace(error=error)))

    three = "by about 20 points after 50, 15 points after 100, 10 points after 200 more rows."
    assert said((0.3, 0.25, 0.2)).endswith(three)
    assert said((0.3,)).endswith("by about 20 points after 50 more rows.")
    assert said(()) == ""


def test_dropped_rows_are_neither_learnt_from_nor_missed(first, frame, right):
    decisions = decide(first, frame, right, [], 20)
    dropped = [replace(one, decision="drop", label="") for one in decisions[:4]]
    found = run(frame, PLAN, about=About(decisions=[*dropped, *decisions[4:]]))
    rows = {first.listing.keys.index(one.key) for one in dropped}
    assert set(found.checked.dropped) == rows and found.findings.dropped == 4
    split = split_rows(frame, PLAN)
    assert found.n_train == len(split.train) - len(rows & set(split.train.tolist()))
    ours = rows & set(split.held_out.tolist())
    assert found.findings.error.unsettled == len(ours) > 0
    gone = frame.drop(index=list(rows)).reset_index(drop=True)
    again = run(gone, PLAN, about=About(decisions=[*dropped, *decisions[4:]]))
    assert again.findings.note == OTHER_DRAWS and again.findings.error is None and again.checked.dropped == []


def test_draws_of_another_seed_give_no_bound(first, frame, right):
    decisions = decide(first, frame, right, [], 30)
    plan = replace(PLAN, seed=1)
    found = run(frame, plan, about=About(decisions=decisions))
    assert found.findings.note == OTHER_DRAWS in found.notes and found.findings.error is found.findings.left is None
    assert found.findings.changed > 0 and len(checked_sentences(found)) == 1
    assert headline(found).startswith("Accuracy: on 40 rows") and "the label given before" in headline(found)


def test_rows_of_groups_give_no_bound_on_errors(frame, right):
    plan, grouped = replace(PLAN, groups="g"), frame.assign(g=np.arange(N) // 4)
    first = run(grouped, plan)
    found = run(grouped, plan, about=About(decisions=decide(first, frame, right, [], 30))).findings
    assert found.error is None and found.left is not None and found.note == DEPENDENT
    assert widths(first) == ""


def test_a_decision_holds_for_copies_of_its_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100).round(6)
    frame = pd.DataFrame({"x": x, "z": rng.normal(size=100), "y": np.where(x > 0, "yes", "no")})
    frame = pd.concat([frame, frame.iloc[:10], frame.iloc[:3]], ignore_index=True)
    rows = split_rows(frame, PLAN)
    assert rows.n_copies == 13
    given = frame["y"][0]
    other = {"yes": "no", "no": "yes"}[given]
    every = run(frame, PLAN).listing.keys
    checked = Checked.of([Decision(every[100], given, "other", other)], frame, PLAN).with_copies(rows)
    assert checked.labels == {0: other, 100: other, 110: other} and checked.n == 1
    mended = checked.mended(rows)
    assert (mended.labels[[0, 100, 110]] == other).all() and (mended.labels != frame["y"]).sum() == 3
    # Two decisions on copies of one row: each its own.
    two = [Decision(every[100], given, "other", other), Decision(every[0], given, "keep", given)]
    mended = Checked.of(two, frame, PLAN).with_copies(rows).mended(rows)
    assert mended.labels[100] == other and mended.labels[0] == given
    # No copy is left to be reviewed: its label is not the one that the table has.
    fit = run(frame, PLAN, about=About(decisions=[Decision(every[100], given, "other", other)]))
    assert {row for row, what in fit.listing.checked.items() if what} == {0, 100, 110}
    dropped = run(frame, PLAN, about=About(decisions=[Decision(every[100], given, "drop", "")]))
    assert dropped.checked.dropped == [100] and dropped.findings.changed == 0


def test_decisions_that_leave_no_class_to_learn_are_refused(frame):
    rows = split_rows(frame, PLAN)
    listing = run(frame, PLAN).listing
    no = [row for row in range(N) if frame["y"][row] == "no"]
    every = [Decision(listing.keys[row], "no", "other", "yes") for row in no]
    with pytest.raises(ValueError, match="leave each class two rows to train on, but got 'no with 0'"):
        Checked.of(every, frame, PLAN).mended(rows)
    with pytest.raises(ValueError, match=r"the 2 classes of the table \(no, yes\), but got 'maybe for row n0'"):
        Checked.of([replace(every[0], label="maybe", name="n0")], frame, PLAN).mended(rows)


def test_a_spelling_is_asked_about_until_all_its_rows_are_decided(frame):
    names = frame.assign(y=frame["y"].map({"yes": "approved", "no": "rejected"}))
    few = np.flatnonzero(names["y"] == "approved")[:7].tolist()
    names = names.assign(y=names["y"].where(~names.index.isin(few), "aproved"))
    first = run(names, PLAN)
    assert ["'aproved' (7 rows)" in one and "mgce review" in one for one in first.asked] == [True]
    decisions = [Decision(first.listing.keys[row], "aproved", "other", "approved") for row in few]
    assert run(names, PLAN, about=About(decisions=decisions)).asked == []
    assert len(run(names, PLAN, about=About(decisions=decisions[:1])).asked) == 1
    once = names.assign(y=names["y"].where(~names.index.isin(few[1:]), "approved"))
    assert ["If so, write both alike, and fit again before you review." in one for one in run(once, PLAN).asked] == [
        True
    ]


def test_a_class_that_decisions_leave_no_row_of_is_gone_and_the_draws_are_those_of_before(frame, right):
    typos = np.flatnonzero(frame["y"] == "yes")[:3].tolist()
    misspelt = frame.assign(y=frame["y"].where(~frame.index.isin(typos), "yess"))
    first = run(misspelt, PLAN)
    assert "Is 'yess'" not in " ".join(first.asked)  # it has four letters
    assert first.model.classes.tolist() == ["no", "yes", "yess"]
    decisions = decide(first, misspelt, right, typos, 30)
    second = run(misspelt, PLAN, about=About(decisions=decisions))
    assert second.model.classes.tolist() == ["no", "yes"] and second.findings.note == ""
    assert second.findings.drawn == first.listing.draws.number[typos].clip(30).max() or second.findings.drawn >= 30
    with pytest.raises(ValueError, match="leave each class two rows to train on, but got 'yess with 1'"):
        run(misspelt, PLAN, about=About(decisions=[one for one in decisions if one.name != f"n{typos[0]}"]))
    # Case is no difference of classes, whatever the labels of the table have become since.
    spelt = [replace(one, given=one.given.upper(), label=one.label.capitalize()) for one in decisions]
    assert run(misspelt, PLAN, about=About(decisions=spelt)).findings.changed == second.findings.changed
