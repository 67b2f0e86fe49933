"""The distribution itself: its version, how its commands end, how to install what is optional."""

__all__ = ["__version__"]

__version__ = "0.1.0"
