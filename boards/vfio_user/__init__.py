"""A PCI function behind a Unix socket: the vfio-user protocol, served to a virtual machine.

wire.py has the layout of messages, link.py moves them with their descriptors, memory.py is the
client's memory, regions.py and interrupts.py are the function's two other sides, server.py answers.
"""
