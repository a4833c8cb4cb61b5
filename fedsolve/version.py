"""The version of the library, which both sides of a federation compare."""

__version__ = "0.1.0"
