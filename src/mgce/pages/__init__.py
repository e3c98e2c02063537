"""Pages and pictures as bytes: HTML in one file, SVG for such a page, PNG without a display."""
