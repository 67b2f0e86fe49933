"""Code for AMD GPUs: targets, LLVM and COMGR, renderers, code objects, matrix forms."""
