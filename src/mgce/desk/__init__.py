"""From files to models, suspects, pages and commands. The library imports nothing from here."""
