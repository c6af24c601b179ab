"""Which GPU rental processes all documents, well enough and in time, for the smallest committed budget?"""

__version__ = "0.2.0"
