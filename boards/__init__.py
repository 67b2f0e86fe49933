"""Software GPUs: they run real machine code and check what a driver does to them."""

from unbound import terminal

terminal.begin(__name__)
