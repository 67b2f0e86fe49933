"""The GPU as its PCI bus sees it: config space, BARs, and registers that do something."""
