"""What comes of a file that a reader is given."""

from __future__ import annotations

import resource
import traceback
from pathlib import Path
from typing import Any

MEGABYTES = 1500  # that a file of some kilobytes may take; what is allowed unpacked, and half as much again
BAD = ("traceback", "hang", "memory", "crash")


def outcome(read: Any, path: Path) -> tuple[str, str]:
    """Read a file; return the outcome and, if it is bad, its description."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read(path)
        came, what = "value", ""
    except (ValueError, OSError) as error:
        sentence = str(error).startswith("Expected") and "\n" not in str(error)
        came, what = ("sentence", "") if sentence else ("traceback", _last_line(error))
    except TimeoutError_ as error:
        came, what = "hang", str(error)
    except MemoryError:
        came, what = "memory", "MemoryError"
    except BaseException as error:  # a reader may raise anything, and that is what is looked for
        came, what = "traceback", _last_line(error)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return ("memory", f"{grown:.0f} MB") if grown > MEGABYTES else (came, what)


class TimeoutError_(BaseException):  # noqa: N801 - no reader may catch it as an Exception
    """A reader took too long."""


def _last_line(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:100]} ({Path(frame.filename).name}:{frame.lineno})"
