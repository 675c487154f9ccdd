"""Run the command line: `python -m toolkit --help`."""

from toolkit.cli import main

if __name__ == "__main__":
    main()
