"""Code for the host's CPU: targets, LLVM in this process, clang, the command processor."""
