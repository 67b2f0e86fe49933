"""A USB device of a board behind a socket, for a virtual machine: usb-redir."""
