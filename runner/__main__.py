"""`python -m runner` is the console script `runner`."""

from runner.cli.main import main

if __name__ == "__main__":
    main()
