"""pyHanko without its web client: nothing of ours ever asks a server for anything.

pyHanko loads `aiohttp` for time stamps and revocation lists as soon as it signs or checks. That takes
longer than a signature, and a program that cannot reach a network is easier to trust.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from zoneinfo import ZoneInfo

_CLIENT = "aiohttp"
_UTC = ZoneInfo("UTC")


class _Absent(Exception):
    """Stands for every class of the client; using one is an error."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("signing and checking happen without network")


class _NoClient(ModuleType):
    def __getattr__(self, name: str) -> type[_Absent]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent


@contextmanager
def without_network_client() -> Iterator[None]:
    """Import pyHanko inside of this block. A client that is already loaded stays as it is.

    pyHanko asks tzlocal for the zone of this machine to write the hour of signing, and fails over valid values of TZ
    (POSIX rules such as CET-1CEST) that tzlocal does not know. Instants are UTC here, whatever TZ says.
    """
    import tzlocal

    tzlocal.get_localzone = lambda: _UTC
    if _CLIENT in sys.modules:
        yield
        return
    sys.modules[_CLIENT] = _NoClient(_CLIENT)
    try:
        yield
    finally:
        del sys.modules[_CLIENT]
