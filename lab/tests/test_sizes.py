"""The sizes of a package are those that a reader would count."""

from mgce_lab.studies.sizes import Size, size

TEXT = '''"""A module.

Of two lines."""

LIMIT = 3  # a reason
NAMES = ("a", "b")
LEAST, MOST = 0.5, 2
IS_ON = True
__all__ = ["first", "Second"]


def first(a, b, c, d, e, f, *, g=1):
    """Seven."""
    # not code
    return a


class Second:
    """With a method."""

    def of(self, a, b, c, d, e, f):
        return (
            a
        )
'''


def test_a_package_is_counted_as_by_hand(tmp_path):
    package = tmp_path / "p"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text('_NAMES = ["first"]\n__all__ = sorted(_NAMES)\n')
    (package / "some.py").write_text(TEXT)
    (package / "_own.py").write_text('__all__ = ["hidden"]\n')
    (package / "tests" / "test_some.py").write_text("LIMIT = 4\n")
    assert size(package) == Size(code=2 + 12 + 1, files=3, wide=1, numbers=3, public=1, all_public=2)
