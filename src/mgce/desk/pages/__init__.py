"""Write HTML pages in one file, SVG charts for these pages, and PNG figures without a display."""
