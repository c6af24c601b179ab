"""The Quarto-style Markdown that the note is written in: strict subset, parsed and rendered to HTML.

docs/templates.md lists the syntax. What is outside it, and every unresolved reference, is refused.
"""
