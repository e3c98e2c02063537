"""Use MGCE in other libraries: one module for each library, which you import by name if the library is installed."""
