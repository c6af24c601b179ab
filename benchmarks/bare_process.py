"""What any script has to do before its pass: start, import, load. Prints the seconds since its parent started it.

Written as a user would: libraries' defaults, garbage collection on. Seconds end when the model is loaded, so the
interpreter's own exit is not in them.

Usage: bare_process.py MODEL_FOLDER STARTED_NS (of the parent's monotonic clock)
"""

from __future__ import annotations

import sys
import time

from transformers import AutoModelForSequenceClassification, AutoTokenizer


def main(model: str, started_ns: int) -> None:
    AutoTokenizer.from_pretrained(model)
    AutoModelForSequenceClassification.from_pretrained(model).eval()
    sys.stdout.write(f"{(time.monotonic_ns() - started_ns) / 1e9}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
