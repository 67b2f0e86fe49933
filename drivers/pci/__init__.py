"""PCI functions as Linux shows them: ids, config space, BARs, binding to drivers, VFIO.

Nothing here decides whether a function may be taken: that is `drivers.claim`.
"""
