"""Where figures stand on paper, so that no page stays half empty before one.

A page laid out once tells the height of every block and of its parts. From these, filling pages is simple
arithmetic: the places that a figure may take inside of its section are tried without laying out anything,
and the space between blocks is made a little tighter or wider. Only what was found is laid out again, and
only if it pays. The same note gives the same pages everywhere; the HTML keeps the order of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

FIRST_PAGE = "page-one"
"""Class of the block that is page 1."""
_SPREADS = (1.0, 0.85, 0.7)
"""Space between blocks, as a share of what the style says, in the order in which they are preferred."""
_MORE = {2: 20.0, 3: 14.0, 9: 9.0}
"""Pixels that a gap may grow to fill a page, by what follows: a section, a part of one, anything else."""
_FOOT = 12.0  # pixels of a page that are never filled: the margin of what stands last must not push it out
_LOOSER = ((0.14, "roomy"), (0.07, "airy"))
"""Classes of style.css that set page 1 wider, from which white share of it on."""
_ROUNDS = 3
_TOO_WHITE = 0.15
_LEAST_LAST = 0.27
_WORTH_IT = 0.03
_SLACK = 0.05


@dataclass(frozen=True)
class _Part:
    """What is never broken: a row, some lines, a figure. Pixels. `glued`: to what stands before it."""

    height: float
    above: float = 0.0
    below: float = 0.0
    glued: bool = False
    repeat: float = 0.0
    """Height of the head that a table shows again when a page begins with this row."""


@dataclass(frozen=True)
class _Block:
    """A child of `main`: its parts, and what it asks of its neighbours."""

    element: Any
    parts: tuple[_Part, ...]
    keep_before: bool
    keep_after: bool

    @property
    def figure(self) -> bool:
        return bool(self.element.tag == "figure")

    @property
    def level(self) -> int:
        """2 and 3 for headings, 9 for all others."""
        return {"h2": 2, "h3": 3}.get(self.element.tag, 9)


@dataclass(frozen=True)
class Arrangement:
    """Blocks after page 1 in order, each with the space above it in pixels."""

    order: tuple[tuple[Any, float], ...]
    looser: str
    """Class that sets page 1 wider; empty if it is full."""


def arranged(pages: Sequence[Any]) -> Arrangement | None:
    """A better order of figures than that of these laid-out pages, if it is worth another layout."""
    blocks, room = _measured(pages)
    if not blocks:
        return None
    tried = []
    for spread in _SPREADS:
        found = _with_figures_moved(_spread(blocks, spread), room)
        moved = _moves(blocks, found)
        filled, gaps = _filled(found, room)
        tried.append((_cost(filled, room) + moved + 0.2 * (1 - spread), filled, gaps))
    best, order, gaps = min(tried, key=lambda one: one[0])
    looser = _looser(pages[0])
    if _cost(blocks, room) - best < _WORTH_IT and not looser:
        return None
    return Arrangement(tuple((block.element, gap) for block, gap in zip(order, gaps, strict=True)), looser)


def arrange(pages: Sequence[Any], found: Arrangement) -> str:
    """The HTML that these pages were laid out from, changed to the order found."""
    main = _main(pages[-1]).element
    moved = {id(element) for element, _ in found.order}
    for element in [child for child in main if id(child) in moved]:
        main.remove(element)
    for element, gap in found.order:
        main.append(element)
        element.set("style", f"margin-top: {gap:.3f}px; margin-bottom: 0")
    if found.looser:
        first = next(child for child in main if child.get("class") == FIRST_PAGE)
        first.set("class", f"{FIRST_PAGE} {found.looser}")
    return "<!DOCTYPE html>" + ET.tostring(pages[-1]._page_box.children[0].element, encoding="unicode", method="html")


def _looser(page: Any) -> str:
    """How page 1 may be set: one with much white, if it is that of our templates and not yet set tighter."""
    first = next((child for child in _main(page).children if child.element.get("class") == FIRST_PAGE), None)
    if first is None:
        return ""
    white = _white(page)
    return next((name for least, name in _LOOSER if white >= least), "")


def cost(pages: Sequence[Any]) -> float:
    """How badly these pages are filled: 0 is best. For comparing two layouts of one note."""
    return _price([_white(page) for page in pages])


def _white(page: Any) -> float:
    """Share of a laid-out page that stays white at its foot."""
    box = page._page_box
    foot = max((_bottom(child) for child in _main(page).children if child.is_in_normal_flow()), default=0.0)
    return float((box.content_box_y() + box.height - foot) / box.height)


# ---- measured ----------------------------------------------------------------------------------------


def _main(page: Any) -> Any:
    """The box of `main` on this page."""
    (body,) = (child for child in page._page_box.children[0].children if child.element_tag == "body")
    return next(child for child in body.children if child.element_tag == "main")


def _measured(pages: Sequence[Any]) -> tuple[list[_Block], float]:
    """The blocks behind page 1 with their heights, and the height of a page; none for a page of another kind."""
    try:
        mains = [_main(page) for page in pages[1:]]
    except (StopIteration, ValueError):  # a page.html of the user's own
        return [], 0.0
    fragments: dict[int, list[Any]] = {}
    for main in mains:
        for child in main.children:
            if child.element is None or child.element is main.element:  # loose text: no block that could be placed
                return [], 0.0
            fragments.setdefault(id(child.element), []).append(child)
    if not fragments:
        return [], 0.0
    return [_block(boxes) for boxes in fragments.values()], float(pages[1]._page_box.height)


def _block(boxes: Sequence[Any]) -> _Block:
    first = boxes[0]
    parts = _parts(boxes)
    if len(boxes) == 1:  # lines between rows and the like: what the parts do not add up to
        parts[-1] = replace(parts[-1], height=parts[-1].height + first.border_height() - _height(parts))
    parts[0] = replace(parts[0], above=max(parts[0].above, _margin(first, "top")), glued=False)
    parts[-1] = replace(parts[-1], below=max(parts[-1].below, _margin(first, "bottom")))
    return _Block(first.element, tuple(parts), _avoids(first, "break_before"), _avoids(first, "break_after"))


def _parts(boxes: Sequence[Any]) -> list[_Part]:
    tag = boxes[0].element_tag
    if tag in ("ul", "ol"):
        return _glue([(item, 0.0) for box in boxes for item in box.children])
    if tag == "p":
        return _lines(boxes)
    if tag == "div" and (rows := _rows(boxes)):
        return rows
    return [_Part(sum(box.border_height() for box in boxes))]


def _lines(boxes: Sequence[Any]) -> list[_Part]:
    """Lines; as many of them in one part at either end as the style wants kept together."""
    heights = [line.height for box in boxes for line in box.children]
    top, end = boxes[0].style["orphans"], boxes[0].style["widows"]
    if len(heights) < top + end:
        return [_Part(sum(box.border_height() for box in boxes))]
    return [_Part(sum(heights[:top])), *map(_Part, heights[top:-end]), _Part(sum(heights[-end:]))]


def _rows(boxes: Sequence[Any]) -> list[_Part]:
    """Rows of a table in its frame. The first holds head and caption too."""
    found, head, repeat = [], 0.0, 0.0
    for number, box in enumerate(boxes):
        groups = [group for table in _inside(box, "TableBox") for group in table.children if not group.is_header]
        rows = [row for group in groups for row in group.children]
        if not rows:
            return []
        above = rows[0].position_y - box.border_box_y()
        head, repeat = (above, repeat) if number == 0 else (head, above)
        found += rows
    if not repeat:
        table = next(_inside(boxes[0], "TableBox"))
        repeat = sum(group.height for group in table.children if group.is_header)
    parts = _glue([(row, repeat) for row in found])
    parts[0] = replace(parts[0], height=parts[0].height + head, repeat=0.0)
    return parts


def _inside(box: Any, kind: str) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        if type(child).__name__ == kind:
            yield child
        else:
            yield from _inside(child, kind)


def _glue(boxes: Sequence[tuple[Any, float]]) -> list[_Part]:
    """Parts of items or rows, which ask like blocks to stay with their neighbours."""
    if not boxes:
        return [_Part(0.0)]
    kept = [False] + [_avoids(a, "break_after") or _avoids(b, "break_before") for (a, _), (b, _) in pairwise(boxes)]
    return [
        _Part(box.border_height(), _margin(box, "top"), _margin(box, "bottom"), glued, repeat)
        for (box, repeat), glued in zip(boxes, kept, strict=True)
    ]


def _margin(box: Any, side: str) -> float:
    """As the style says; the box itself has none at the top of a page."""
    margin = box.style[f"margin_{side}"]
    return float(margin.value) if getattr(margin, "unit", None) == "px" else 0.0


def _avoids(box: Any, side: str) -> bool:
    return str(box.style[side]).startswith("avoid")


def _bottom(box: Any) -> float:
    return float(box.border_box_y() + box.border_height())


# ---- tried -------------------------------------------------------------------------------------------


def _spread(blocks: Sequence[_Block], share: float) -> list[_Block]:
    """The blocks with other space around them; that inside of them stays."""
    return [_around(block, block.parts[0].above * share, block.parts[-1].below * share) for block in blocks]


def _around(block: _Block, above: float, below: float) -> _Block:
    parts = list(block.parts)
    parts[0] = replace(parts[0], above=above)
    parts[-1] = replace(parts[-1], below=below)
    return replace(block, parts=tuple(parts))


def _filled(blocks: Sequence[_Block], room: float) -> tuple[list[_Block], list[float]]:
    """The blocks with the gaps of each page grown so that it ends near its foot, and these gaps."""
    gaps = [max(a.parts[-1].below, b.parts[0].above) for a, b in pairwise(blocks)]
    gaps = [blocks[0].parts[0].above, *gaps]
    pages: list[list[int]] = [[]]
    whites = _whites(blocks, room, pages)
    for begun, white in zip(pages[:-1], whites[:-1], strict=True):  # the last page ends where it ends
        most = sum(_MORE[blocks[number].level] for number in begun)
        share = min(1.0, max(0.0, white - _FOOT) / most) if most else 0.0
        for number in begun:
            gaps[number] += share * _MORE[blocks[number].level]
    return [_around(block, gap, 0.0) for block, gap in zip(blocks, gaps, strict=True)], gaps


def _with_figures_moved(blocks: Sequence[_Block], room: float) -> list[_Block]:
    """Every figure in turn at its best place, until none has a better one."""
    best = list(blocks)
    start = list(blocks)
    best_cost = _cost(best, room)
    for _ in range(_ROUNDS):
        before = best_cost
        for figure in [block for block in blocks if block.figure]:
            rest = [block for block in best if block is not figure]
            for place in _places(rest, best.index(figure)):
                tried = [*rest[:place], figure, *rest[place:]]
                cost = _cost(tried, room) + _moves(start, tried)
                if cost < best_cost - 1e-9:
                    best, best_cost = tried, cost
        if best_cost == before:
            break
    return best


def _places(rest: Sequence[_Block], here: int) -> list[int]:
    """Where a figure of `rest[here]` may go: in its section, past no other figure, between blocks that may part."""
    low = here
    while low > 0 and rest[low - 1].level != 2 and not rest[low - 1].figure:
        low -= 1
    high = here
    while high < len(rest) and rest[high].level != 2 and not rest[high].figure:
        high += 1
    return [
        place
        for place in range(max(low, 1), high + 1)
        if not rest[place - 1].keep_after
        and not (place < len(rest) and (rest[place].keep_before or _belongs_to_table(rest[place])))
    ]


def _belongs_to_table(block: _Block) -> bool:
    """Does this paragraph only say how a table goes on?"""
    kids = list(block.element)
    return len(kids) == 1 and kids[0].get("class") == "small-print" and not (block.element.text or "").strip()


def _moves(before: Sequence[_Block], after: Sequence[_Block]) -> float:
    """A figure should stay near its words: each block that it passes costs a little, a heading more."""
    total = 0.0
    elements = [block.element for block in before]
    for place, block in enumerate(after):
        if block.figure:
            old = elements.index(block.element)
            passed = before[min(old, place) : max(old, place) + 1]
            total += 0.003 * abs(place - old) + 0.015 * sum(one.level < 9 for one in passed)
    return total


def _cost(blocks: Sequence[_Block], room: float) -> float:
    return _price([white / room for white in _whites(blocks, room)])


def _price(whites: Sequence[float]) -> float:
    """Of the white shares of all pages: large ones count more than many small ones, the last only if it is empty."""
    total = sum(white**2 + max(0.0, white - _TOO_WHITE) * 3 for white in whites[:-1])
    return total + 0.02 * len(whites) + (0.3 if whites and 1 - whites[-1] < _LEAST_LAST else 0.0)


def _whites(blocks: Sequence[_Block], room: float, begun: list[list[int]] | None = None) -> list[float]:
    """Pixels left at the foot of each page when these blocks are set one after the other.

    `begun`, a list with an empty one, gets for each page the numbers of blocks that begin on it below its top.
    """
    out: list[float] = []
    used = below = 0.0
    for starts, chunk in _chunks(blocks):
        gap = max(below, chunk[0].above) if used else 0.0
        size = _height(chunk)
        if used and used + gap + size > room + _SLACK:
            out.append(room - used)
            used, gap = chunk[0].repeat, 0.0
            if begun is not None:
                begun.append([])
                starts = starts[1:] if starts and starts[0][1] == 0 else starts
        if begun is not None:
            begun[-1] += [number for number, _ in starts]
        used = min(room, used + gap + size)
        below = chunk[-1].below
    return [*out, room - used]


def _height(parts: Sequence[_Part]) -> float:
    """Of parts one below the other, with the space between them."""
    return sum(part.height for part in parts) + sum(max(a.below, b.above) for a, b in pairwise(parts))


def _chunks(blocks: Sequence[_Block]) -> Iterator[tuple[list[tuple[int, int]], list[_Part]]]:
    """Parts that stay together on a page, and which blocks begin where in the chunk."""
    chunk: list[_Part] = []
    starts: list[tuple[int, int]] = []
    keep = False
    for index, block in enumerate(blocks):
        for number, part in enumerate(block.parts):
            if chunk and not (part.glued or (number == 0 and (keep or block.keep_before))):
                yield starts, chunk
                chunk, starts = [], []
            if number == 0:
                starts.append((index, len(chunk)))
            chunk.append(part)
        keep = block.keep_after
    if chunk:
        yield starts, chunk
