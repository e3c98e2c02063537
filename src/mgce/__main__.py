"""Run the command line as `python -m mgce COMMAND`, for when the command `mgce` is not on the path."""

from mgce.desk.cli.main import main

if __name__ == "__main__":
    main()
