"""Tables of methods and QMD fields, made by `generators/nv_classes.py`."""
