"""The program `supdocnade`, also as `python -m supdocnade`."""

import os
import signal


def main() -> None:
    """Run the command line of this process and exit.

    Ctrl-C also ends the process with one line while its modules are being imported. An exception
    would be lost in a callback of the import system.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Otherwise it is ignored.
        signal.signal(signal.SIGINT, _stop)
    from supdocnade.cli.main import main as run

    run()


def _stop(_number: int, _frame: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(130)


if __name__ == "__main__":
    main()
