"""Every figure of README and of the pages, beside the record it comes from: `python -m mgce_lab.studies claims`.

What is read is README, each page of docs up to its second heading, and all else that the list names. A figure is a
number in a table, a sentence, a caption or an output. `mgce_lab.studies.claim_list` says where each comes from, by an
entry for each sentence or table:

- `Claim` and `Table` compute numbers from records in `results/`, and compare them at the precision that is printed;
- `Written` renders what a command has written, and compares the text;
- `Printed` is an output that `tests/test_transcripts.py` prints again;
- `Exempt` is no result, for a reason that is given.

A figure that none of these covers is an error, and so is an exemption that finds no figure. A number in words is one
where a unit follows ("five points ahead"); a count of things ("ten tables") is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[4]
README = "README.md"
WORDS = dict(
    zip(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "half"),
        (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 0.5),
        strict=True,
    )
)
DIGITS = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
IN_WORDS = rf"\b(?:{'|'.join(WORDS)})\b"
# Not in a name (CIFAR-10, AVX2, 3.10.2), and in words only before a unit, or as a share ("one in six").
FIGURE = re.compile(
    rf"(?<![A-Za-z\d_.])(?<![A-Za-z]-){DIGITS}(?![A-Za-z_])(?!\.\d)"
    rf"|(?:{IN_WORDS})(?= (?:points?|times|percent|seconds?|minutes?|a minute|claims? (?:hold|does))\b)"
    rf"|(?:{IN_WORDS} in {IN_WORDS})",
    re.IGNORECASE,
)
FENCE = re.compile(r"^ *(`{3,}|:{4,})(\S*).*$", re.MULTILINE)
# What is no text for a reader: comments, code, formulas, places of links and pictures, numbers of a list, options of a
# directive but the words for those who cannot see; and headings, under which the numbers stand again.
UNREAD = re.compile(
    r"(?s:<!--.*?-->|\$\$.*?\$\$)|`[^`\n]+`|\$[^$\n]+\$|(?<=\])\([^)\s]*\)"
    r"|^ *\d+\. |^#+ .*$|^:(?!alt:)[\w-]+:.*$|^:{3,}.*$|^\|[-:| ]+\|$",
    re.MULTILINE,
)
TYPED = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)  # a command in a console
CAPTIONED = ("{figure}", "{image}")  # directives whose lines are read
OUTPUTS = ("text", "console", "")  # languages of blocks that show what came, not what to type


class Found(NamedTuple):
    """A figure on a page, and what it comes from."""

    start: int
    line: int
    text: str
    value: str
    source: str


@dataclass(frozen=True)
class Claim:
    """A sentence whose numbers are those of a record: `{}` stands for each in the text, which may break lines anywhere.

    Other numbers of the text are conditions ("with 40 % wrong labels"), by which the value is chosen. A value that is
    true or false is of a text without `{}`.
    """

    page: str
    text: str
    record: str
    value: Callable[[], float | Sequence[float] | bool]

    def cover(self, page: Page) -> Iterator[Found]:
        """Yield the figures of the sentence."""
        match = page.only(_pattern(self.text), self.text)
        value = self.value()
        if isinstance(value, bool):
            if not value:
                page.errors.append(f"{self.page}: not so by {self.record}: {self.text}")
            values: list[float] = []
        else:
            values = [float(one) for one in ([value] if isinstance(value, int | float) else value)]
        spans = [match.span(group) for group in range(1, len(match.groups()) + 1)]
        if len(spans) != len(values):
            page.errors.append(f"{self.page}: {len(spans)} places for {len(values)} values: {self.text}")
        for (start, end), one in zip(spans, values, strict=False):
            yield page.compared(start, end, one, self.record)
        yield from page.rest(match.span(), "a condition of the claim", self.record)


@dataclass(frozen=True)
class Table:
    """A table, named by the beginning of its first line, whose cells are those of a record, by row and column.

    A cell without a figure is compared with nothing. The first column and the heads are conditions.
    """

    page: str
    begins: str
    record: str
    value: Callable[[str, str], float | Sequence[float]]

    def cover(self, page: Page) -> Iterator[Found]:
        """Yield the figures of the cells, row by row."""
        match = page.only(re.compile(rf"^{re.escape(self.begins)}.*\n(?:\|.*\n)*", re.MULTILINE), self.begins)
        lines, start, heads = match.group().splitlines(keepends=True), match.start(), list[str]()
        for number, line in enumerate(lines):
            cells, place = line.rstrip("\n").split("|")[1:-1], start + 1
            start += len(line)
            heads = heads or [cell.strip() for cell in cells]
            for column, cell in zip(heads, cells, strict=True):
                figures = sorted(one for one in page.every if place <= one[0] < place + len(cell))
                if number > 1 and column != heads[0] and figures:
                    value = self.value(cells[0].strip(), column)
                    values = [value] if isinstance(value, int | float) else value
                    for figure, one in zip(figures, values, strict=True):
                        yield page.compared(*figure, float(one), self.record)
                place += len(cell) + 1
        yield from page.rest(match.span(), "a condition of the table", self.record)


@dataclass(frozen=True)
class Written:
    """Parts of a page that a command writes from records, whole lines of it or all."""

    page: str
    command: str
    record: str
    parts: Callable[[], Sequence[str]]

    def cover(self, page: Page) -> Iterator[Found]:
        """Yield the figures of the parts."""
        for part in self.parts():
            place = page.text.find(part)
            if place < 0:
                page.errors.append(f"{self.page}: differs from what `{self.command}` writes of {self.record}")
            else:
                yield from page.rest((place, place + len(part)), f"as `{self.command}` writes it", self.record)


@dataclass(frozen=True)
class Printed:
    """The outputs of a page, which a test prints again."""

    page: str
    test: str = "tests/test_transcripts.py"

    def cover(self, page: Page) -> Iterator[Found]:
        """Yield the figures of the blocks."""
        for language, start, end in page.blocks:
            if language == "text":
                yield from page.read(page.rest((start, end), "as it is printed", self.test))


@dataclass(frozen=True)
class Exempt:
    """A text or, in all pages, a pattern whose numbers are no results, for a reason."""

    page: str
    text: str | re.Pattern[str]
    reason: str

    def cover(self, page: Page) -> Iterator[Found]:
        """Yield the figures of the text."""
        pattern = self.text if isinstance(self.text, re.Pattern) else _pattern(self.text)
        matches = [*pattern.finditer(page.text)]
        if not matches and self.page != EVERY:
            page.errors.append(f"{self.page}: nothing to exempt: {pattern.pattern}")
        for match in matches:
            yield from page.read(page.rest(match.span(), "no result", self.reason))


EVERY = "*"  # the page of an exemption that holds on all
Entry = Claim | Table | Written | Printed | Exempt


@dataclass
class Page:
    """The text of a page, its figures in what is read, and what was found to be wrong."""

    path: str
    text: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = [*_blocks(self.text)]
        self.every = {*self._figures()}
        ends = self._end()
        self.figures = {(start, end) for start, end in self.every if start < ends}

    def only(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Return the one place of a pattern."""
        matches = [*pattern.finditer(self.text)]
        if len(matches) != 1:
            raise LookupError(f"{self.path}: expected this once, but found it {len(matches)} times: {what}")
        return matches[0]

    def compared(self, start: int, end: int, value: float, source: str) -> Found:
        """Compare a number of the page with the one of a record, at the precision of the page."""
        said = self.text[start:end]
        decimals = len(said.partition(".")[2])
        if abs(number(said) - value) > 0.5 * 10**-decimals + 1e-9:
            where = f"{self.path}, line {self._line(start)}"
            self.errors.append(f"{where}: {said} is printed, but {source} gives {value:.{decimals + 2}f}")
        return Found(start, self._line(start), said, f"{value:.{decimals + 2}f}", source)

    def rest(self, span: tuple[int, int], value: str, source: str) -> Iterator[Found]:
        """Yield the figures between two places, which are compared elsewhere, also below the second heading."""
        for start, end in self.every:
            if span[0] <= start < span[1]:
                yield Found(start, self._line(start), self.text[start:end], value, source)

    def read(self, found: Iterator[Found]) -> Iterator[Found]:
        """Yield those figures that stand above the second heading, or anywhere in README."""
        starts = {start for start, _ in self.figures}
        yield from (one for one in found if one.start in starts)

    def _end(self) -> int:
        """Return where the second heading begins; README is read to its end."""
        heads = [head.start() for head in re.finditer(r"^#+ ", self.text, re.MULTILINE)]
        heads = [head for head in heads if not any(start <= head < end for _, start, end in self.blocks)]
        return heads[1] if len(heads) > 1 and self.path != README else len(self.text)

    def _line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def _figures(self) -> Iterator[tuple[int, int]]:
        unread = [(start, end) for language, start, end in self.blocks if language not in (*OUTPUTS, *CAPTIONED)]
        outputs = [(start, end) for language, start, end in self.blocks if language in OUTPUTS]
        for language, start, end in self.blocks:
            if language == "console":
                unread += [match.span() for match in TYPED.finditer(self.text, start, end)]
        unread += [
            match.span()
            for match in UNREAD.finditer(self.text)
            if not any(start <= match.start() < end for start, end in outputs)
        ]
        hidden = bytearray(len(self.text))
        for start, end in unread:
            hidden[start:end] = b"\1" * (end - start)
        shown = "".join(" " if flag else letter for letter, flag in zip(self.text, hidden, strict=True))
        yield from (match.span() for match in FIGURE.finditer(shown))


def number(text: str) -> float:
    """Return the number that a text stands for, in digits or in a word."""
    return WORDS[text.lower()] if text.lower() in WORDS else float(text.replace(",", ""))


def check(pages: dict[str, str], entries: Sequence[Entry]) -> tuple[dict[str, list[Found]], list[str]]:
    """Return by page its figures beside their sources, and what is wrong."""
    found: dict[str, list[Found]] = {}
    errors = [f"{one.page}: no such page" for one in entries if one.page not in (*pages, EVERY)]
    for path, text in pages.items():
        page, covered = Page(path, text), dict[int, Found]()
        for entry in (one for one in entries if one.page in (path, EVERY)):
            try:
                new = {one.start: one for one in reversed([*entry.cover(page)])}  # compared before the rest
            except LookupError as error:
                errors.append(str(error))
                continue
            if isinstance(entry, Exempt) and entry.page == path and not any(one not in covered for one in new):
                errors.append(f"{path}: this exempts no figure: {entry.text}")
            covered = new | covered  # whoever comes first says what it comes from
        lines = text.splitlines()
        for start, end in sorted(page.figures):
            if start not in covered:
                line = text.count("\n", 0, start) + 1
                errors.append(f"{path}, line {line}: {text[start:end]} has no record: {lines[line - 1].strip()[:100]}")
        found[path] = [covered[start] for start in sorted(covered)]
        errors += page.errors
    return found, errors


def pages() -> dict[str, str]:
    """Return README and the pages by path."""
    paths = [ROOT / README, *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def main(entries: Sequence[Entry]) -> None:
    """Print every figure beside its source, then what is wrong; end with status 1 if something is."""
    found, errors = check(pages(), entries)
    for path, figures in found.items():
        print(path, *(f"  {one.line:4}  {one.text:>8}  {one.value:24}  {one.source}" for one in figures), sep="\n")
    print(f"{sum(map(len, found.values()))} figures on {len(found)} pages, {len(errors)} errors", *errors, sep="\n")
    if errors:
        raise SystemExit(1)


def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a text in which blanks may be any, and `{}` is a number."""
    parts = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in text.split("{}")]
    return re.compile(rf"({DIGITS}|{IN_WORDS})".join(parts), re.IGNORECASE)


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield language, start and end of each block between fences."""
    opened: re.Match[str] | None = None
    for fence in FENCE.finditer(text):
        if fence.group(1).startswith(":"):
            continue
        if opened is None:
            opened = fence
        elif not fence.group(2):
            yield opened.group(2), opened.start(), fence.end()
            opened = None
