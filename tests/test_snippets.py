"""Each Python block of the README, and of the pages on choosing and migrating, runs alone, as it is pasted."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs/choosing.md", *sorted((ROOT / "docs/migrating").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs_alone(block):
    torch.manual_seed(0)
    exec(compile(block, "block", "exec"), {"__name__": "__main__"})


def test_there_are_blocks_on_the_readme_and_on_other_pages():
    assert len(BLOCKS) >= 6 and {"README-0", "gce-0"} <= {block.id for block in BLOCKS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_relative_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
