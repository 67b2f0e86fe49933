"""What the machine has, read through a World and never changed: buses, the user, libraries."""
