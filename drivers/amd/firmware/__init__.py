"""AMD's firmware files, parsed and in the order the security processor takes them."""
