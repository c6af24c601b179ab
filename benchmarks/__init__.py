"""The project's own speed: `make bench` writes `results.json`. One file per family of figures."""
