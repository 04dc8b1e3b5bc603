"""The program `supdocnade`, also as `python -m supdocnade`."""

import os
import sys


def main() -> None:
    """Run the command line of this process and exit.

    Ctrl-C also ends the process with one line while its modules are being imported.
    """
    try:
        from supdocnade.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
