"""Command line: what each command is given, in two modules, and its work, loaded when it runs."""
