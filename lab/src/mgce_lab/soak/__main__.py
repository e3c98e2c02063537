"""Long runs that try to make the library fail, one command for each kind of fault; they exit with 1 if it did."""

from __future__ import annotations

import argparse
import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read where Triton is first imported, here and in every worker

from mgce_lab.soak import faults, files, load, mutants, numerics, page

# Each module has add_arguments(parser) and main(options).
COMMANDS = {"numerics": numerics, "files": files, "faults": faults, "load": load, "mutants": mutants}


def main() -> int:
    """Parse the command line, run the command, and write the page anew if its results are recorded."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.soak", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    options = parser.parse_args()
    code = int(options.main(options))
    if options.record:
        page.main()
        print(f"Written to {page.PAGE} and beside {page.RESULTS}.")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
