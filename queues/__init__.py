"""Packets and the builders of packets: pure functions of their arguments."""

from unbound import terminal

terminal.begin(__name__)
