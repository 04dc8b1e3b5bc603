"""The command line: one file a command, its body apart from the parsing of its options.

Only the standard library, Typer and modules that import nothing heavy are imported at the top of
these files: `supdocnade --help` must not wait for torch.
"""
