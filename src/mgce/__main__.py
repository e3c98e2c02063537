"""`python -m mgce COMMAND`, where the command `mgce` is not on the path."""

from mgce.cli.main import main

if __name__ == "__main__":
    main()
