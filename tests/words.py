"""The words of README and docs, measured by the rules of CONTRIBUTING: `python tests/words.py` prints every page."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
README = "README.md"
CEILINGS = ROOT / "tests/words_ceilings.json"
MADE = ("_build", "gallery", "generated")  # folders of docs that the build makes

LONG = 28  # words of a sentence that nobody has to read twice
# At most this much of each figure; a page that is not there yet has a ceiling of its own in `CEILINGS`.
GOALS = {
    "long sentences, %": 2.0,
    "numbers to 100 words": 3.0,
    "words": 2000,
    "riddles": 0,
    "numbers like .05": 0,
    "lines": 150,
    "words before code": 120,
}
README_ONLY = ("lines", "words before code")

# What readers stumbled over; CONTRIBUTING says what to write. A result reaches or falls to 98.2, never "has" it.
RIDDLES = re.compile(
    r"\b(but for|in place of|as well|those of|that of|by heart|told (?:nothing|the|how)|wrong evenly|evenly wrong|"
    r"(?:has|have|had) \.?\d+)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)\.?\d[\d.,]*(?![\w-]*[A-Za-z])")  # not CIFAR-10 or 3-fold
WITHOUT_ZERO = re.compile(r"(?<![\w.)\]])\.\d")
END = re.compile(r"(?<=[.!?:;])[\"')\]*]*\s+")
DIRECTIVE = re.compile(r"^:{3,}.*$|^:\w+:.*$|^\(\w[\w-]*\)=$", re.MULTILINE)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
ROLE = re.compile(r"\{[\w:]+\}(?=`)")


@dataclass(frozen=True)
class Prose:
    """The text of a page without code, tables, headings, formulas and directives."""

    paragraphs: list[str]
    before_code: int  # words before the first block of code

    @property
    def words(self) -> int:
        """Number of words."""
        return sum(len(words_of(paragraph)) for paragraph in self.paragraphs)

    @property
    def sentences(self) -> list[str]:
        """Sentences, which end by . ! ? : or ; and never go on in the next paragraph."""
        return [sentence for paragraph in self.paragraphs for sentence in END.split(paragraph) if words_of(sentence)]

    def find(self, pattern: re.Pattern[str]) -> list[str]:
        """Return all that matches."""
        return [match.group() for paragraph in self.paragraphs for match in pattern.finditer(paragraph)]


def words_of(text: str) -> list[str]:
    """Split at blanks, and leave out what has neither letter nor digit."""
    return [word for word in text.split() if re.search(r"\w", word)]


def prose(markdown: str) -> Prose:
    """Return the text of a page of Markdown; code inside a sentence counts as one word."""
    text = ROLE.sub("", FORMULA.sub("FORMULA", DIRECTIVE.sub("", markdown)))
    paragraphs: list[str] = []
    before_code, skipped = None, 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("table_open", "heading_open"):
            skipped += 1
        elif token.type in ("table_close", "heading_close"):
            skipped -= 1
        elif token.type in ("fence", "code_block"):
            if before_code is None:
                before_code = len(paragraphs)
        elif token.type == "inline" and not skipped:
            paragraphs.append(_plain(token))
    return Prose(paragraphs, Prose(paragraphs[:before_code], 0).words)


def _plain(inline: Token) -> str:
    parts = []
    for token in inline.children or []:
        if token.type == "text":
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "code_inline":
            parts.append("CODE")
    return "".join(parts)


def figures(page: str, markdown: str) -> dict[str, float]:
    """Return the figures of a page by their names in `GOALS`."""
    text = prose(markdown)
    sentences = text.sentences
    long = [sentence for sentence in sentences if len(words_of(sentence)) > LONG]
    found = {
        "long sentences, %": round(100 * len(long) / max(len(sentences), 1), 1),
        "numbers to 100 words": round(100 * len(text.find(NUMBER)) / max(text.words, 1), 1),
        "words": text.words,
        "riddles": len(text.find(RIDDLES)),
        "numbers like .05": len(text.find(WITHOUT_ZERO)),
    }
    if page == README:
        found |= {"lines": len(markdown.splitlines()), "words before code": text.before_code}
    return found


def pages() -> dict[str, str]:
    """Return README and every page of docs that people write, by path."""
    paths = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not set(path.parts) & set(MADE)]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in [ROOT / README, *paths]}


def above_goals(found: dict[str, float]) -> dict[str, float]:
    """Return the figures that are above the goal of every page."""
    return {name: value for name, value in found.items() if value > GOALS[name]}


def main(arguments: list[str]) -> None:
    """Print the figures of every page, or the worst sentences of one, or write the ceilings."""
    table = {page: figures(page, markdown) for page, markdown in pages().items()}
    if arguments == ["--record"]:
        ceilings = {page: above for page, found in table.items() if (above := above_goals(found))}
        CEILINGS.write_text(json.dumps(ceilings, indent=1) + "\n")
    elif arguments:
        _print_sentences(arguments[0])
    else:
        _print_table(table)


def _print_table(table: dict[str, dict[str, float]]) -> None:
    names = [name for name in GOALS if name not in README_ONLY]
    print(f"{'':32}" + "".join(f"{name:>22}" for name in names))
    for page, found in table.items():
        cells = (f"{found[name]:g}{'*' if found[name] > GOALS[name] else ' '}" for name in names)
        print(f"{page:32}" + "".join(f"{cell:>22}" for cell in cells))
    print(f"{'at most':32}" + "".join(f"{GOALS[name]:>21g} " for name in names))
    print(", ".join(f"{README}: {table[README][name]:g} {name} (at most {GOALS[name]:g})" for name in README_ONLY))


def _print_sentences(page: str) -> None:
    text = prose((ROOT / page).read_text())
    for sentence in text.sentences:
        count, found = len(words_of(sentence)), RIDDLES.findall(sentence)
        if count > LONG or found or WITHOUT_ZERO.search(sentence):
            print(f"{count:3} words; {', '.join(found) or 'no riddle'}: {sentence}")


if __name__ == "__main__":
    main(sys.argv[1:])
