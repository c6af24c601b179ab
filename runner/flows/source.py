"""A campaign to read from: a folder as it is, or an archive that is unpacked into a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.signing import Purpose, check_signature
from runner.flows.inventory import check_place
from runner.seal.bag import read_bag


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files whose names were all checked before (`runner.seal.names`) into a folder of our own."""
    for name, data in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


@contextmanager
def open_campaign(path: Path) -> Iterator[Campaign]:
    """The campaign in a folder or an archive. An archive whose bytes do not fit its signature is not accepted."""
    if path.is_dir():
        place = check_place(Campaign(path))
        if place.status == "failed":
            raise InputRefused(
                place.finding,
                file=path,
                details=place.details,
                next_step="use the campaign as one plain folder, without links out of it",
            )
        yield Campaign(path)
        return
    if not path.is_file():
        raise InputRefused(
            "there is no such campaign folder or archive",
            file=path,
            next_step="name a campaign folder or an archive (.zip)",
        )
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":
            raise InputRefused(
                "neither a campaign folder nor an archive",
                file=path,
                next_step="name a campaign folder or an archive (.zip)",
            )
    bag = read_bag(path)
    found = check_signature(bag.signed, bag.signature, Purpose.BAG)
    if not found.valid:
        raise NotAccepted(
            f"the archive's signature is not good: {found.reason}",
            file=path,
            next_step="get the archive again from who made it; runner verify FILE shows every check",
        )
    with tempfile.TemporaryDirectory(prefix="runner-archive-") as folder:
        unpack(bag.payload, Path(folder))
        yield Campaign(Path(folder))
