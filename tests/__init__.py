"""Tests, and programs around them."""

from unbound import terminal

terminal.begin(__name__)
