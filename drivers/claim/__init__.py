"""Taking a PCI function from its kernel driver, and giving it back.

Vendor-neutral: a driver says which chips it knows; everything else is the same for all.
"""
