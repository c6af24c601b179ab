"""Refuse an old Python with one clear line. Written so that any Python 2.7 or 3 can read this file."""
# ruff: noqa: UP032, UP036

import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "error: Python 3.11 or newer is needed, but {} is Python {}.{}. "
        "Install a newer one and run: make setup PYTHON=/path/to/python3.11\n".format(
            sys.executable, sys.version_info[0], sys.version_info[1]
        )
    )
    sys.exit(2)
