"""AMD machine code: declared tables, a decoder and the text LLVM's disassembler prints."""
