"""Rules of PDF/A-3 on colours, pictures and transparency: ISO 19005-3, 6.2.3 to 6.2.10."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, Stream

_BLENDS = (
    "/Normal /Compatible /Multiply /Screen /Overlay /Darken /Lighten /ColorDodge /ColorBurn /HardLight /SoftLight "
    "/Difference /Exclusion /Hue /Saturation /Color /Luminosity"
)
_INTENTS = ("/RelativeColorimetric", "/AbsoluteColorimetric", "/Perceptual", "/Saturation")
_CHANNELS = {b"RGB ": 3, b"GRAY": 1, b"CMYK": 4, b"Lab ": 3}


def _all(pdf: pikepdf.Pdf) -> Iterator[Any]:
    """Every dictionary and stream of the file, also those that stand inside of others."""
    pending = [item for item in pdf.objects if isinstance(item, Dictionary | Stream | Array)]
    while pending:
        item = pending.pop()
        if isinstance(item, Dictionary | Stream):
            yield item
        parts = list(item) if isinstance(item, Array) else [part for _, part in item.items()]
        pending += [p for p in parts if isinstance(p, Dictionary | Array) and not p.is_indirect]


def output_intent_6_2_3(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    intents = [intent for intent in pdf.Root.get("/OutputIntents", []) if intent.get("/S") == Name.GTS_PDFA1]
    if len(intents) != 1 or not isinstance(intents[0].get("/DestOutputProfile"), Stream):
        yield "A 6.2.3 no output intent with a profile"
        return
    if not str(intents[0].get("/OutputConditionIdentifier", "")):
        yield "A 6.2.3 the output intent has no identifier"
    if "/DestOutputProfileRef" in intents[0]:
        yield "A 6.2.3 the output intent leads to a profile elsewhere"
    for finding in profile_6_2_4_2(intents[0].DestOutputProfile, (b"mntr", b"prtr")):
        yield f"A 6.2.3 {finding}"
    if intents[0].DestOutputProfile.read_bytes()[16:20] != b"RGB ":
        yield "A 6.2.3 the profile is not for RGB"


def profile_6_2_4_2(profile: Any, classes: tuple[bytes, ...]) -> Iterator[str]:
    """Header of an ICC profile, its table of tags, and the tags that a profile of its kind needs."""
    data = profile.read_bytes()
    if len(data) < 132 or int.from_bytes(data[:4]) != len(data) or data[36:40] != b"acsp":
        yield "the profile is no ICC profile of its length"
        return
    if data[12:16] not in classes or data[8] not in (2, 4):
        yield f"the profile's class or version: {data[12:16]!r} {data[8]}"
    if profile.get("/N") != _CHANNELS.get(data[16:20]):
        yield f"N is not the number of channels of {data[16:20]!r}"
    tags = {}
    for number in range(int.from_bytes(data[128:132])):
        entry = data[132 + 12 * number : 144 + 12 * number]
        tags[entry[:4]] = (int.from_bytes(entry[4:8]), int.from_bytes(entry[8:12]))
    if any(place + size > len(data) for place, size in tags.values()):
        yield "a tag of the profile lies outside of it"
    wanted = {b"desc", b"cprt", b"wtpt"} | ({b"rXYZ", b"gXYZ", b"bXYZ", b"rTRC"} if data[16:20] == b"RGB " else set())
    if not wanted <= set(tags):
        yield f"the profile lacks {sorted(wanted - set(tags))}"


def colours_6_2_4(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    """Device colours only as the output intent covers them (RGB and grey); every other space sound."""
    for item in _all(pdf):
        for key in ("/ColorSpace", "/CS"):
            space = item.get(key)
            spaces = [part for _, part in space.items()] if isinstance(space, Dictionary) else [space]
            for one in spaces:
                if one is not None and not isinstance(one, bool | int):
                    yield from _space(one)
    for holder in _holders(pdf):
        for operands, operator in pikepdf.parse_content_stream(holder):
            word = str(operator)
            if word in ("k", "K") or (word in ("cs", "CS") and str(operands[0]) == "/DeviceCMYK"):
                yield "A 6.2.4.3 CMYK, for which there is no profile"
            if word == "ri" and str(operands[0]) not in _INTENTS:
                yield f"A 6.2.6 rendering intent {operands[0]}"


def _space(space: Any) -> Iterator[str]:
    kind = str(space[0]) if isinstance(space, Array) else str(space)
    if "CMYK" in kind:
        yield "A 6.2.4.3 CMYK, for which there is no profile"
    elif kind == "/ICCBased":
        for finding in profile_6_2_4_2(space[1], (b"mntr", b"prtr", b"scnr", b"spac")):
            yield f"A 6.2.4.2 {finding}"
    elif kind in ("/Indexed", "/Pattern") and isinstance(space, Array) and len(space) > 1:
        yield from _space(space[1])
    elif kind in ("/Separation", "/DeviceN"):
        yield from _space(space[2])
    elif kind not in ("/DeviceRGB", "/DeviceGray", "/CalRGB", "/CalGray", "/Lab", "/Pattern", "/Indexed"):
        yield f"A 6.2.4 a colour space that is none: {kind}"


def _holders(pdf: pikepdf.Pdf) -> list[Any]:
    """What holds operators: pages, forms, tiling patterns."""
    return [page.obj for page in pdf.pages] + [
        item for item in pdf.objects
        if isinstance(item, Stream) and (item.get("/Subtype") == Name.Form or item.get("/PatternType") == 1)
    ]  # fmt: skip


def states_6_2_5(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for holder in _all(pdf):
        states = holder.get("/ExtGState")
        for state in [part for _, part in states.items()] if isinstance(states, Dictionary) else []:
            if "/TR" in state or "/HTP" in state or state.get("/TR2", Name.Default) != Name.Default:
                yield "A 6.2.5 a transfer function"
            halftone = state.get("/HT")
            if isinstance(halftone, Dictionary | Stream) and halftone.get("/HalftoneType") not in (1, 5):
                yield "A 6.2.5 a halftone of another type"
            blend = state.get("/BM", Name.Normal)
            if any(str(one) not in _BLENDS.split() for one in (blend if isinstance(blend, Array) else [blend])):
                yield f"A 6.2.10 blend mode {blend}"
            if str(state.get("/RI", _INTENTS[0])) not in _INTENTS:
                yield f"A 6.2.6 rendering intent {state.RI}"
            mask = state.get("/SMask")
            if isinstance(mask, Dictionary) and not isinstance(mask.get("/G"), Stream):
                yield "ISO 32000 11.6.5.3 a mask without its form"


def pictures_6_2_8(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for item in pdf.objects:
        if not isinstance(item, Stream) or item.get("/Subtype") != Name.Image:
            continue
        if item.get("/Interpolate", False):
            yield "A 6.2.8 an image is interpolated"
        if "/Alternates" in item or "/OPI" in item:
            yield "A 6.2.8 an image has alternates"
        if str(item.get("/Intent", _INTENTS[0])) not in _INTENTS:
            yield "A 6.2.6 rendering intent of an image"
        if "/ColorSpace" not in item and not item.get("/ImageMask", False) and "JPX" not in str(item.get("/Filter")):
            yield "ISO 32000 8.9.5 an image without colours"


def forms_6_2_9(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for item in pdf.objects:
        if isinstance(item, Stream) and item.get("/Subtype") == Name.Form:
            if any(key in item for key in ("/OPI", "/PS", "/Ref")) or item.get("/Subtype2") == Name.PS:
                yield "A 6.2.9, UA 7.20 a form holds what it must not"
            if b"MCID" in item.read_bytes() and "/StructParents" not in item:
                yield "UA 7.20 a form with content of the structure that leads to no parent"
        if isinstance(item, Stream) and item.get("/Subtype") == Name.PS:
            yield "A 6.2.9 PostScript"
