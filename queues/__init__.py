"""Packets and the builders of packets: pure functions of their arguments."""
