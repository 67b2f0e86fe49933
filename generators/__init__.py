"""Programs that make this repository's data files from headers; see docs/adding-a-chip.md.

Each module is a command that prints one file, such as
`python -m generators.driver_registers LINUX drivers/amd/pci/registers/hdp_6_0_0.txt`, and names its
files in `OUTPUTS`; LINUX is a kernel source tree. `python -m generators LINUX` compares
all of them, and writes them with `--write`.
"""

from unbound import terminal

terminal.begin(__name__)
