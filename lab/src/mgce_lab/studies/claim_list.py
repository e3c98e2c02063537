"""Where each figure of README and of the pages comes from: a claim for each sentence and table; the first one counts.

To add a result, add a `Claim` with the sentence, `{}` for each number, and the record; `python -m mgce_lab.studies claims`
then prints what the record gives. An exemption needs a reason that says why the number is no result.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from mgce_lab.studies import (
    annotators,
    consensus_calibration,
    demo_seeds,
    embeddings,
    estimators_page,
    human_noise,
    human_sets,
    loop,
    loop_page,
    page,
    texts,
    wrong_looks,
)
from mgce_lab.studies import claim_records as of
from mgce_lab.studies.claims import EVERY, Claim, Entry, Exempt, Printed, Table, Written
from mgce_lab.studies.gpu import page as gpu_page
from mgce_lab.suite import page as suite
from mgce_lab.table_model import page as table_model

LOOPS, PAPER = "results/loop/runs.jsonl", "results/claims/claims.txt"
DEMO = "results/demo/seeds.jsonl"
IMAGES, NAMED = "results/paper-images", str(page.NAMED)

ARGUMENT = "an argument or a setting, which a reader may set"
CONDITION = "what was done to the labels, of which a result is said with a record"
DEFINITION = "a value of a definition or of a theorem"
EXAMPLE = "an example of a sentence, not measured"
OUTPUT = (
    "an output that no test can print again: it needs files of a reader, or a network whose figures the processor moves"
)
PLACE = "a place in a paper, a table or a list"
PLAN = "how much is planned, which tests of the plans count"
VERSION = "a version or a year"
CLOCK = "an order of magnitude of a time, which each machine has of its own"


def performance() -> str:
    """Return docs/lab/performance.md of its records."""
    cpu, named, probs = (json.loads(Path(path).read_text()) for path in (page.CPU, page.NAMED, page.PROBS))
    return page.render(cpu, named, probs, gpu_page.read(page.GPU))


def performance_in_short() -> str:
    """Return the answer of docs/performance.md of its records."""
    kernels = [json.loads(path.read_text()) for path in sorted(page.KERNELS.glob("*.json"))]
    return page.answer(json.loads(page.CPU.read_text()), kernels)


def estimators() -> str:
    """Return docs/lab/estimators.md of its records."""
    return estimators_page.render(json.loads(estimators_page.FIT_TIMES.read_text()))


def loops() -> str:
    """Return docs/lab/training-loops.md of its records."""
    return loop_page.page(*(loop.records(part) for part in ("runs", "development", "unseen")))


WRITTEN: list[Entry] = [
    Written(
        "README.md",
        "mgce_lab.studies.loop",
        LOOPS,
        lambda: of.loop_rows(("cross-entropy", "GCE", "learned correction", "`choose_recipe`")),
    ),
    Written(
        "docs/lab/annotators.md",
        "mgce_lab.studies.annotators --page",
        "results/annotators/cells.jsonl",
        lambda: of.marked(
            annotators.page(of.page("docs/lab/annotators.md"), annotators.records()), "consensus", "asking", "made"
        ),
    ),
    Written(
        "docs/lab/annotators.md",
        "mgce_lab.studies.consensus_calibration --page",
        "results/annotators/calibration.jsonl",
        lambda: of.marked(
            consensus_calibration.page(of.page("docs/lab/annotators.md"), consensus_calibration.records()),
            "calibration",
        ),
    ),
    Written(
        "docs/lab/certificates.md",
        "mgce_lab.studies.human_noise --page",
        "results/certificates/human-noise.json",
        lambda: [human_noise.render(json.loads(of.page("results/certificates/human-noise.json"))["cells"])],
    ),
    Written(
        "docs/lab/certificates.md",
        "mgce_lab.studies.human_sets --page",
        "results/certificates/sets.json",
        lambda: [human_sets.render(json.loads(of.page("results/certificates/sets.json"))["cells"])],
    ),
    Written(
        "docs/choosing.md",
        "mgce_lab.studies.loop",
        LOOPS,
        lambda: [
            loop_page.summary(loop.records("runs")),
            loop_page.confused(loop.records("runs"), loop.records("development")),
        ],
    ),
    Written(
        "docs/lab/review.md",
        "mgce_lab.studies.wrong_looks --page",
        "results/certificates/wrong-looks.json",
        lambda: [wrong_looks.render(wrong_looks.records())],
    ),
    Written(
        "docs/lab/demo.md",
        "mgce_lab.studies.demo_seeds --page",
        DEMO,
        lambda: [demo_seeds.means(demo_seeds.records())],
    ),
    Written(
        "docs/lab/embeddings.md",
        "mgce_lab.studies.embeddings --page",
        "results/embeddings",
        lambda: [embeddings.whole_page()],
    ),
    Written(
        "docs/lab/table-model.md",
        "mgce_lab.table_model.page",
        "results/table-model",
        lambda: [*table_model.parts().values()],
    ),
    Written("docs/lab/estimators.md", "mgce_lab.studies.estimators_page", "results/estimators", lambda: [estimators()]),
    Written(
        "docs/pictures-and-texts.md",
        "mgce_lab.studies.texts --page",
        str(texts.RESULTS),
        lambda: [render(of.lines(texts.RESULTS)) for render in (texts.render, texts.render_languages)],
    ),
    Written("docs/lab/performance.md", "mgce_lab.studies.page", "results/benchmarks", lambda: [performance()]),
    Written("docs/performance.md", "mgce_lab.studies.page", "results/benchmarks", lambda: [performance_in_short()]),
    Written("docs/lab/suite.md", "mgce_lab.suite.page", "results/suite", lambda: [suite.whole()]),
    Written("docs/tables.md", "mgce_lab.suite.page", "results/suite", lambda: [suite.short()]),
    Written("README.md", "mgce_lab.suite.page", "results/suite", lambda: [suite.for_readme()]),
    Written("docs/lab/training-loops.md", "mgce_lab.studies.loop", "results/loop", lambda: [loops()]),
]

PRINTED: list[Entry] = [
    Printed("README.md"),
    *(
        Printed(f"docs/commands/{name}.md")
        for name in (
            "benchmark",
            "certify",
            "compare",
            "demo",
            "embed",
            "env",
            "fit",
            "predict",
            "report",
            "reproduce",
            "review",
            "train",
        )
    ),
    *(
        Printed(f"docs/{name}.md")
        for name in ("estimators", "installation", "label-tools", "large-tables", "llm-labels", "own-data", "targets")
    ),
]

CLAIMS: list[Entry] = [
    # README
    Claim(
        "README.md",
        "agrees with only {} % of the given labels",
        "the output of `mgce demo` above",
        lambda: of.printed("agrees with the given label in"),
    ),
    Claim(
        "README.md",
        "accuracy is {} % ({} % on average over {} seeds)",
        DEMO,
        lambda: [of.printed("new rows, mgce fit"), of.demonstrations("mgce fit"), of.demonstrations("seed", len)],
    ),
    Claim(
        "README.md", "it has the best mean rank of [six tuned classifiers]", "results/embeddings", of.first_on_features
    ),
    Claim(
        "README.md",
        "the learned correction differs from GCE by {} points with pair noise, {} with symmetric noise and {} with right labels",
        "results/loop",
        of.leads_over_gce,
    ),
    Claim(
        "README.md",
        "`robust_loss(name)` returns one of {} [losses](docs/losses.md), with `mgce-lab` one of {}.",
        "mgce_lab.losses.NAMED",
        of.n_named,
    ),
    Claim("README.md", "| its seven claims | {} | {} | {} |", "the verdicts of docs/paper.md", of.verdicts),
    Claim(
        "README.md",
        "| the {} numbers of its Table 3, of which {} of ours are of one seed | {} | {} | {} |",
        PAPER,
        lambda: of.numbers_of_table_3()[::4] + of.numbers_of_table_3()[1:4],
    ),
    Claim("README.md", "![Mean accuracy on {} tables", "results/suite", suite.n_tables),
    Claim("README.md", "a mean over {} public tables on which no setting was chosen", "results/suite", suite.n_tables),
    Claim(
        "docs/tables.md",
        "is first in mean rank in accuracy, balanced accuracy and log-loss, on {} public tables",
        "results/suite",
        lambda: float(suite.n_tables()) if all(map(suite.is_first, ("accuracy", "balanced", "log_loss"))) else 0.0,
    ),
    Table("docs/certificates.md", "| bound and labels |", "results/certificates", of.false_at_most),
    Table("docs/reliability.md", "| tried | how often |", "results/reliability", of.attempts),
    # Losses
    Claim(
        "docs/choosing.md",
        "let `choose_recipe` compare six losses, which takes {} times as long.",
        LOOPS,
        of.whole_trainings,
    ),
    Claim(
        "docs/performance.md",
        "On small batches of few classes most losses take two to nine times as long as cross-entropy.",
        NAMED,
        lambda: of.most_between([0], 2, 9),
    ),
    Claim(
        "docs/commands/compare.md",
        "(Welch's test, p of {} to {})",
        "results/compare/digits.json",
        of.welch_on_digits,
    ),
    Table(
        "docs/commands/compare.md",
        "| method | beta | accuracy |",
        "results/compare/digits.json",
        functools.partial(of.compared_losses, "digits"),
    ),
    Claim(
        "docs/migrating/cross-entropy.md",
        "MGCE gained {} to {} points of accuracy from a learning rate three times as large",
        of.RATES,
        lambda: sorted(of.gain_of_rate(name) for name in ("mgce 1.05", "mgce 1.4")),
    ),
    Claim(
        "docs/migrating/cross-entropy.md", "and cross-entropy about {} point.", of.RATES, lambda: of.gain_of_rate("ce")
    ),
    Claim("docs/protocols.md", "compares {} losses on tables and images", "results/losses", of.n_losses),
    Claim(
        "docs/protocols.md",
        "40 % wrong labels the accuracy of NCE+AGCE and of trimmed cross-entropy ends within 3 points of the best loss.",
        f"{of.P1}, {of.REDUCED}",
        lambda: of.nearly_best(3),
    ),
    # Frozen features
    Claim(
        "docs/pictures-and-texts.md",
        "a head of 6,000 pictures takes {} to {} seconds of one processor",
        "results/embeddings",
        lambda: [reduced(of.of_features("seconds")) for reduced in (min, max)],
    ),
    # The paper
    Claim(
        "docs/paper.md",
        "makes seven claims about its loss MGCE. {} claims hold in our tests on tables",
        "the verdicts below",
        lambda: sum(of.verdicts()[::2]),
    ),
    Claim(
        "docs/paper.md",
        "{} claim does not hold: with wrong labels MGCE is not more accurate than both",
        "the verdicts below",
        lambda: of.verdicts()[1],
    ),
    Claim(
        "docs/paper.md",
        "the epoch, of 150, in which MGCE reaches the final accuracy of GCE, β = 1.4: covertype {}, letter {}, adult {} |",
        PAPER,
        lambda: [of.reached(name) for name in ("covertype", "letter", "adult")],
    ),
    Claim(
        "docs/paper.md",
        "paired t-tests, five seeds, in {} cases: letter and adult with 20 and 40 % wrong labels",
        "results/paper/advantage.txt",
        lambda: len(of.tested_pairs("over cross-entropy")),
    ),
    Claim(
        "docs/paper.md",
        "[ahead](#accuracy) of cross-entropy in {} case, of MAE in {}, of both in none",
        "results/paper/advantage.txt",
        lambda: [of.times_ahead(one) for one in ("over cross-entropy", "over MAE (minimax)")],
    ),
    Claim(
        "docs/paper.md",
        "of both in none",
        "results/paper/advantage.txt",
        lambda: not {*of.where_ahead("over cross-entropy")} & {*of.where_ahead("over MAE (minimax)")},
    ),
    Claim(
        "docs/paper.md",
        "[lower](#calibration-error) in {} and in {} of {} cases",
        PAPER,
        lambda: [
            of.compared("ECE of h", "cross-entropy")[0],
            of.compared("ECE of h", "GCE")[0],
            sum(of.compared("ECE of h", "GCE")),
        ],
    ),
    Claim(
        "docs/paper.md",
        "higher in none; **differs** for p: lower in none",
        PAPER,
        lambda: (
            not any(
                of.compared("ECE of h", other)[1] or of.compared("ECE of p", other)[0]
                for other in ("cross-entropy", "GCE")
            )
        ),
    ),
    Claim(
        "docs/paper.md",
        "accuracy minus (1 - V): {} to {} points at β = 1, {} to {} at 1.4",
        PAPER,
        lambda: [reduced(of.above_v(beta)) for beta in (1, 1.4) for reduced in (min, max)],
    ),
    Claim(
        "docs/paper.md",
        "In our runs no curve 1 - V was above the accuracy.",
        PAPER,
        lambda: of.counted(r"above the accuracy of its network in (\d+) of") == [0],
    ),
    Claim(
        "docs/paper.md",
        "On covertype and adult MGCE converges more slowly: after 50 epochs GCE is more accurate.",
        PAPER,
        lambda: all(
            of.after_50(name, "MGCE, beta 1.4") < of.after_50(name, "GCE, beta 11") for name in ("covertype", "adult")
        ),
    ),
    Claim(
        "docs/paper.md",
        "Of the {} numbers of the paper's Table 3, {} agree with ours, {} differ and {} are too uncertain to say.",
        PAPER,
        lambda: of.numbers_of_table_3()[:4],
    ),
    Claim(
        "docs/paper.md",
        "All our accuracies that differ are above the paper's; the largest differences are on covertype.",
        PAPER,
        of.above_the_paper,
    ),
    Claim(
        "docs/paper.md",
        "In three of them, the SCE of h is lower than the SCE of cross-entropy.",
        PAPER,
        lambda: of.compared("SCE of h", "cross-entropy") == [3, 0, 1],
    ),
    Claim(
        "docs/paper.md",
        "The SCE of h is lower than the SCE of GCE in two cases, and never higher.",
        PAPER,
        lambda: of.compared("SCE of h", "GCE") == [2, 0, 2],
    ),
    Claim(
        "docs/paper.md",
        "in the other three cases their calibration does not differ significantly.",
        PAPER,
        lambda: of.compared("ECE of h", "MAE (minimax)") == [0, 1, 3],
    ),
    *(
        Claim(
            "docs/image-experiments.md",
            f"| {name} | {{}} | {ours} | {{}} | {ours}{published} | {{}} |",
            IMAGES,
            functools.partial(of.beside_the_paper, method),
        )
        for name, method, ours, published in (
            ("GCE, β = 1.4", "gce", "{} ± {}", ""),
            ("MGCE, β = 1.4", "mgce", "{} ± {}", ""),
            ("MAE (minimax)", "mae_published", "{}", ", as published"),
            ("cross-entropy", "ce", "{} ± {}", ""),
        )
    ),
    Claim(
        "docs/image-experiments.md",
        "all four accuracies differ from the paper's by Welch's test, and all four are above the paper's.",
        IMAGES,
        lambda: set(of.against_the_paper("accuracy").values()) == {"above"},
    ),
    Claim(
        "docs/image-experiments.md",
        "The ECE of MGCE is above the paper's, the ECE of GCE below. The ECE of cross-entropy is too uncertain to compare.",
        IMAGES,
        lambda: (
            of.against_the_paper("ece_h")
            == {"mgce": "above", "gce": "below", "ce": "too wide", "mae_published": "above"}
        ),
    ),
    *(
        Claim(
            "docs/image-experiments.md",
            f"| {name} | {{}} | {{}} | {{}} | {{}} | {{}} | {{}} |",
            IMAGES,
            functools.partial(of.differences_on_images, other),
        )
        for name, other in (("cross-entropy", "ce"), ("GCE", "gce"))
    ),
    Claim(
        "docs/image-experiments.md",
        "In accuracy MGCE does not differ significantly from cross-entropy or GCE. By h, MGCE is better calibrated than both. By p, it is far worse calibrated than GCE.",
        IMAGES,
        lambda: of.verdicts_on_images() == {"ce": "level lower level", "gce": "level lower higher"},
    ),
    Claim(
        "docs/image-experiments.md",
        "Cross-entropy is right on {} % of the test images, MGCE on {} %, GCE on {} %.",
        IMAGES,
        lambda: [of.curves_on_images(method).mean(0)[-1] for method in ("ce", "mgce", "gce")],
    ),
    Claim(
        "docs/image-experiments.md",
        "with 40 % wrong labels; cross-entropy falls from {} to {} %, MGCE and GCE stay at {} %",
        IMAGES,
        of.figure_3,
    ),
]

EXEMPT: list[Entry] = [
    Exempt(
        EVERY,
        re.compile(
            r"\b(?:Tables?|Figures?|[Ss]ections?|Theorem|Remark|Corollary|Algorithm)\s+[\d.]*\d(?:(?:,| and| to) [\d.]*\d)*"
        ),
        PLACE,
    ),
    Exempt(
        EVERY,
        re.compile(
            r"AISTATS 2026|et al\. \(\d+\)|\b(?:Python|PyTorch|MRCpy|torchmetrics|netcal|entmax|cleanlab|Liger-Kernel)\s+[\d.]*\d(?: to [\d.]*\d)?"
        ),
        VERSION,
    ),
    Exempt(
        EVERY,
        re.compile(
            r"(?:β|[Bb]etas?|alpha|\bq|MGCE|trim|L1|learning\s+rate)(?: =| is| from| of| near| above)? [\d.]*\d(?: (?:and|or|to) [\d.]*\d)?(?!\.?\d| ?%| points)"
        ),
        ARGUMENT,
    ),
    Exempt(EVERY, re.compile(r"(?:[Pp]robabilit(?:y|ies)(?: is)?|exactly|probability exactly) [01]\b"), DEFINITION),
    Exempt(
        EVERY,
        re.compile(
            r"(?:[Ww]ith|[Uu]nder|replaces|gives|made|which)\s+\d+ % (?:of the (?:training\s+)?(?:labels|images)|symmetric|wrong)"
        ),
        CONDITION,
    ),
    Exempt("README.md", "learnt from up to 1,000 rows", CONDITION),
    Exempt(
        "docs/lab/suite.md",
        "84 of different sources: KEEL, pydataset, UCI; 58 to choose on, two locked lists of 13",
        PLAN,
    ),
    Exempt("docs/lab/suite.md", "1,000, or 300 where a table has fewer than 1,500", CONDITION),
    Exempt("docs/lab/suite.md", "up to 4,000 with right labels", CONDITION),
    Exempt("docs/lab/suite.md", "symmetric 20 and 40 %; pairs, or one-sided with two classes, 40 %", CONDITION),
    Exempt("docs/lab/suite.md", "of a linear and of a tree model, 25 %; by class, 25 %", CONDITION),
    Exempt("README.md", '"every row above 60 is labelled 0"', EXAMPLE),
    Exempt(
        "docs/certificates.md",
        'such as "at most 17 %, with confidence 95 %". A certificate with confidence 95 % fails with a probability of at most 5 %',
        EXAMPLE,
    ),
    Exempt("docs/certificates.md", "surely **at most** 5 % are wrong", EXAMPLE),
    Exempt("docs/certificates.md", "replaced **at least** 10 % by another class", EXAMPLE),
    Exempt("docs/certificates.md", "the confidence is 1 - delta", DEFINITION),
    Exempt("docs/choosing.md", "Read the list from 1,", PLACE),
    Exempt("docs/choosing.md", "use line 5:", PLACE),
    Exempt("docs/commands/certify.md", "at least 2 % of the labels were replaced", EXAMPLE),
    Exempt("docs/commands/clean.md", "at most 5 % of them are still wrong, with confidence 95 %", ARGUMENT),
    Exempt("docs/commands/clean.md", "Call it three times", PLACE),
    Exempt("docs/commands/demo.md", "takes about 15 seconds of processor time", CLOCK),
    Exempt(
        "docs/commands/embed.md",
        "400 pictures by efficientnet-lite0, weights 9386950811f5: 1,280 features each are in photos.npz. Took 18 s.",
        OUTPUT,
    ),
    Exempt("docs/commands/predict.md", "are numbered from 1.", PLACE),
    Exempt("docs/commands/train.md", re.compile(r"```console\n.*?```", re.DOTALL), OUTPUT),
    Exempt("docs/commands/train.md", "with an interval of 95 %", ARGUMENT),
    Exempt("docs/lab/convex-heads.md", "6,000 training rows of 1,280 numbers", CONDITION),
    Exempt("docs/faq.md", "stays near 0, but the accuracy is bad.** The MGCE loss of a row is 0 once", DEFINITION),
    Exempt("docs/faq.md", "fewer probabilities are 0.", DEFINITION),
    Exempt("docs/image-experiments.md", re.compile(r"^\| `(?:table|figure)\d` \|.*$", re.MULTILINE), PLAN),
    Exempt("docs/image-experiments.md", "only 60 of the 270 networks are trained", PLAN),
    Exempt("docs/installation.md", "takes about 20 seconds of", CLOCK),
    Exempt("docs/migrating/entmax.md", "e_y is 1 for the label and 0 for other classes", DEFINITION),
    Exempt("docs/migrating/gce.md", "| q towards 0, cross-entropy | divides by 0 |", DEFINITION),
    Exempt("docs/migrating/gce.md", "a probability below 1e-7", ARGUMENT),
    Exempt("docs/migrating/mrcpy.md", "clips gradients at a norm of 5.", ARGUMENT),
    Exempt("docs/numerics.md", "is the larger of x and 0.", DEFINITION),
    Exempt("docs/numerics.md", "becomes 0. *eps* is the spacing of floating-point numbers at 1.", DEFINITION),
    Exempt(
        "docs/paper-equations.md",
        re.compile(r"^\| .*\|$", re.MULTILINE),
        "numbers of equations, and theorems that the named tests prove",
    ),
    Exempt("docs/api.md", "A version 0.x.0 may change a public name.", VERSION),
    Exempt("docs/api.md", "A version 0.x.y changes no public name.", VERSION),
    Exempt("docs/releasing.md", re.compile(r"^\| \d+ \| .*$", re.MULTILINE), PLACE),
    Exempt("docs/protocols/few-images.md", "trains on 2,000 images of MNIST or 5,000 of CIFAR-10", CONDITION),
    Exempt(
        "docs/protocols/selection.md", "trains on 1,600 images; 400 images with noisy labels are held out", ARGUMENT
    ),
    Exempt("docs/protocols/tables.md", "a table of 26 classes", CONDITION),
    Exempt("docs/protocols/tables.md", "a share of 0.2 of the rows", ARGUMENT),
]

ENTRIES: list[Entry] = [*WRITTEN, *PRINTED, *CLAIMS, *EXEMPT]
