"""matplotlib without the manual that it writes for each of its hundred kinds of artists when it is loaded.

Imported before its other modules. Writing those docstrings takes a quarter of the time to load it; nothing
of ours reads them, and what is drawn does not depend on them.
"""

from __future__ import annotations

import sys
from typing import Any

if "matplotlib.figure" not in sys.modules:
    import matplotlib.artist

    artist: Any = matplotlib.artist.Artist
    if hasattr(artist, "_update_set_signature_and_docstring"):
        artist._update_set_signature_and_docstring = classmethod(lambda cls: None)
