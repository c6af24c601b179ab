"""Commands that are printed as the next step name the campaign that they are about, wherever they are pasted.

Sentences in the records and in the note stay as they are: they know no folder of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from runner.flows.foreign import shell_word

# Neither inside a path or a word, nor a command that only explains itself.
_RUNNER = r"(?<![\w./-])runner (?=({})\b)(?![^;,()\n]*--help)"
_MAKE = r"(?<![\w./-])make (?=({})\b)(?![^;,()\n]*CAMPAIGN=)"
_SUMS = re.compile(r"(?<!\w)(?=sha256sum -c note/)")


def name_campaign(text: str, root: Path, commands: Collection[str]) -> str:
    """`runner decide` as `runner --campaign FOLDER decide`, `make decide` as `make CAMPAIGN=FOLDER decide`.

    `commands`: names of the commands, which are the make targets that take a campaign. Nothing changes where `root`
    is the current folder as it was not given.
    """
    if root == Path():
        return text
    folder, names = shell_word(str(root)), "|".join(map(re.escape, commands))
    text = re.sub(_RUNNER.format(names), lambda _: f"runner --campaign {folder} ", text)
    text = re.sub(_MAKE.format(names), lambda _: f"make CAMPAIGN={folder} ", text)
    return _SUMS.sub(lambda _: f"cd {folder} && ", text)
