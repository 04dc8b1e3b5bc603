"""Test sessions in environments of their own.

nox -s tests      run all tests with the tested versions, as `make test` does
nox -s lowest     run the unit tests with the lowest versions that pyproject.toml allows
nox -s minimal    test the package without its extras
nox -s changelog  compile the fragments in changes/ into CHANGELOG.md
"""

import re
import tomllib
from pathlib import Path

import nox

nox.options.sessions = ["tests", "lowest", "minimal"]
nox.options.reuse_existing_virtualenvs = True

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
CONSTRAINED = ("--constraint", "constraints.txt")
IN_PARALLEL = ("--numprocesses", "2", "--dist", "loadfile")


@nox.session(python=["3.11", "3.12"])
def tests(session: nox.Session) -> None:
    """Run all tests with the tested versions."""
    session.install(*CONSTRAINED, "--editable", ".[dev]")
    session.run("pytest", *IN_PARALLEL, "--durations", "20", *session.posargs)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Run the unit tests and some functional tests with the lowest allowed versions."""
    extras = PROJECT["optional-dependencies"]
    triton = [requirement for requirement in extras["dev"] if requirement.startswith("triton")]
    tested = ("deep", "parquet", "remote", "serve")
    chosen = [requirement for name in tested for requirement in extras[name]]
    requirements = [*PROJECT["dependencies"], *chosen, *triton]
    session.install(
        *map(lowest_version, requirements),
        *(
            "httpx",
            "httpx2",
            "hypothesis",
            "pandas",
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
        ),
    )
    session.install("--no-deps", "--editable", ".")
    files = session.posargs or [
        "tests/unit",
        "tests/functional/test_cli.py",
        "tests/functional/test_corpus_on_disk.py",
        "tests/functional/test_reproducible_training.py",
        "tests/functional/test_without_extras.py",
    ]
    # Old releases warn about each other, so warnings are no errors here.
    session.run("pytest", *IN_PARALLEL, "-W", "default", *files)


def lowest_version(requirement: str) -> str:
    """Return the requirement `name>=version` as `name==version`.

    torch is installed in the tested version instead: older releases for a CPU are not in the
    default registry, and those for a GPU take several gigabytes.
    """
    name, version = requirement.split(">=")
    if name == "torch":
        (version,) = re.findall(r"^torch==(\S+)$", Path("constraints.txt").read_text(), re.M)
    return f"{name}=={version}"


@nox.session(python="3.11")
def minimal(session: nox.Session) -> None:
    """Run the commands without any extra, and check that those needing one say so."""
    session.install(*CONSTRAINED, ".", "pandas", "pytest", "pytest-timeout", "pytest-xdist")
    missing = (
        "import fastapi, uvicorn, prometheus_client, multipart, onnx, onnxruntime, pillow_heif, "
        "pyarrow"
    )
    session.run("python", "-c", missing, success_codes=[1], silent=True)
    session.run("supdocnade", "--version")
    session.run(
        "pytest",
        *IN_PARALLEL,
        "tests/functional/test_without_extras.py",
        "tests/functional/test_cli.py",
        "tests/unit/estimators",
        "tests/unit/scene",
        *session.posargs,
    )


@nox.session(python=False)
def changelog(session: nox.Session) -> None:
    """Compile the fragments in changes/ into CHANGELOG.md, under the current version."""
    source = Path("src/supdocnade/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.M)
    session.run("towncrier", "build", "--yes", "--version", version, *session.posargs)
