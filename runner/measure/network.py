"""Which of this host's addresses and interfaces the other nodes can reach (M26).

Libraries find an address by the host's name, and on many systems that is the loopback's: then the ranks of two
machines never meet. The way to the rendezvous is known to work, so its interface is taken.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from pathlib import Path

_SIOCGIFADDR = 0x8915
_NAME_BYTES = 16


def own_address(host: str, port: int) -> str | None:
    """This host's address on the way to `host`; of the node whose own address that is, this address itself.

    None where there is no way. Nothing is sent: a datagram socket only chooses its route.
    """
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as route:
            route.connect(target)
            return str(route.getsockname()[0])
    except OSError:
        return None


def interface_of(address: str) -> str | None:
    """Name of the interface that has the address, such as eth0; None where the system does not tell (Linux)."""
    if sys.platform != "linux":
        return None
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.version == 6:
        return _interface_6(wanted.packed.hex())
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[: _NAME_BYTES - 1])
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
            except OSError:  # it has no address of this kind
                continue
            if answer[20:24] == wanted.packed:
                return name
    return None


def _interface_6(digits: str) -> str | None:
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((fields[5] for fields in map(str.split, lines) if fields[0] == digits), None)


def keep_watch(connection: socket.socket) -> None:
    """Ask a silent peer whether it is still there: a link that is cut is noticed within half a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
