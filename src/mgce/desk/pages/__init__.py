"""Write HTML pages in one file."""
