"""Write the versions of a constraints file as requirements that pip-audit reads: `pins.py CONSTRAINTS FOLDER`.

pip-audit wants exact versions, one of each package, and leaves out without a word what is for another Python than its
own. So markers go, an upper end is audited as the version that pip would take, and the second version of a package, for
another Python, comes into a second file.
"""

import sys
from pathlib import Path

from packaging.requirements import Requirement

constraints, folder = Path(sys.argv[1]), Path(sys.argv[2])
versions: dict[str, list[str]] = {}
for number, line in enumerate(constraints.read_text().splitlines(), 1):
    if not line or line.startswith("#"):
        continue
    requirement = Requirement(line)
    pins = [one.version for one in requirement.specifier if one.operator in ("==", "<=") and "*" not in one.version]
    if len(pins) != 1:
        sys.exit(
            f"{constraints}, line {number}: Expected one version, as NAME==VERSION or NAME<=VERSION, but got {line!r}."
        )
    versions.setdefault(requirement.name, []).extend(pins)
for place in range(max(map(len, versions.values()))):
    lines = [f"{name}=={given[place]}\n" for name, given in versions.items() if place < len(given)]
    (folder / f"pins-{place}.txt").write_text("".join(lines))
