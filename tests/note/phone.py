"""What a phone shows of a page: cells off the screen or cut, and cells without their column's name beside them."""

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
