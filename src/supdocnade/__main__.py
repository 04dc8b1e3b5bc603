"""`python -m supdocnade`, where the command itself is not on the path."""

from supdocnade.cli.main import main

main()
