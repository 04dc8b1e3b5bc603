"""Command line: one file per command.

Modules of this folder import at their top only the standard library, Typer and light modules of
the package, so that `supdocnade --help` does not wait for torch.
"""
