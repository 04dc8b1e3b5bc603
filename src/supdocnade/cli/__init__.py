"""Command line: `<command>.py` has the options and the help of a command.

Modules of commands import at their top only the standard library, Typer and light modules of the
package, so that `--help` does not wait for numpy. They import the work when a command runs,
that of the larger commands from `run_<command>.py`.
"""
