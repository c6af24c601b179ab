"""What a phone shows: cells off the screen or cut, cells without their column's name beside them, figures."""

from __future__ import annotations

OFF_SCREEN = """
[...document.querySelectorAll('caption, tbody th, tbody td')].filter(cell => {
  const box = cell.getBoundingClientRect();
  return box.width > 0 && (box.left < 0 || box.right > window.innerWidth || cell.scrollWidth > cell.clientWidth + 1);
}).map(cell => cell.textContent.slice(0, 60))
"""

UNNAMED = """
[...document.querySelectorAll('tbody td')].filter(cell => {
  const row = cell.closest('tr'), head = cell.closest('table').querySelectorAll('thead th')[cell.cellIndex];
  const label = cell.dataset.label;
  return cell.textContent && cell.colSpan === 1 && (!label || label !== head.textContent.trim()
    || getComputedStyle(cell, '::before').content === 'none'
    || parseFloat(getComputedStyle(cell).paddingLeft) < 0.4 * cell.getBoundingClientRect().width
    || getComputedStyle(cell).textAlign !== 'left');
}).map(cell => cell.textContent.slice(0, 60))
"""

# Marks of data may be cut by their axes: letters, and whatever else stands free, may not leave the drawing.
FIGURES = """
[...document.querySelectorAll('.picture')].map(picture => {
  const shown = [...picture.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0);
  const svg = shown[0], box = svg.getBoundingClientRect();
  const free = [...svg.querySelectorAll('path, use')]
    .filter(one => !one.closest('[clip-path]') && !one.closest('defs'));
  return {drawings: shown.length, narrow: svg.parentElement.className === 'narrow', left: box.left, right: box.right,
    scrolls: picture.scrollWidth > picture.clientWidth, pixels: box.width / svg.viewBox.baseVal.width,
    outside: free.map(one => one.getBoundingClientRect()).filter(one => one.width > 0 && (one.left < box.left - 1
      || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1)).length};
})
"""
