"""Test sessions in environments of their own.

nox -s tests      run all tests with the tested versions, as `make test` does
nox -s lowest     run most tests with the lowest versions that pyproject.toml allows
nox -s newest     run them with the newest versions that pyproject.toml allows (torch: as tested)
nox -s minimal    test the package without its extras
nox -s tools      compare what is written for other programs with the programs themselves
nox -s dist       build wheel and sdist into dist/, twice, and check them
nox -s changelog  compile the fragments in changes/ into CHANGELOG.md
"""

import hashlib
import os
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import nox

nox.options.sessions = ["tests", "lowest", "newest", "minimal", "dist"]
nox.options.reuse_existing_virtualenvs = True

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
CONSTRAINED = ("--constraint", "constraints.txt")
IN_PARALLEL = ("--numprocesses", "2", "--dist", "loadfile")
EXTRAS = ("deep", "remote", "serve")
TEST_TOOLS = ("httpx2", "hypothesis", "pandas", "pytest", "pytest-timeout", "pytest-xdist")
WHEEL_FILES = (
    r"supdocnade/.*\.py",
    r"supdocnade/py\.typed",
    r"supdocnade/scenes\.zip",
    r"supdocnade/report/templates/.*\.(html|css)",
    r"supdocnade/serving/page/.*\.(html|css|js|svg)",
    r"supdocnade-[\d.]+\.dist-info/.*",
)
"""All that the wheel may hold: no results of experiments and benchmarks."""


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
    chosen = [requirement for name in EXTRAS for requirement in extras[name]]
    requirements = [*PROJECT["dependencies"], *chosen, *triton]
    session.install(*map(lowest_version, requirements), "httpx", *TEST_TOOLS)
    session.install("--no-deps", ".")
    run_tests(session)


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Run the same tests with the newest allowed versions, without `constraints.txt`."""
    package = f".[{','.join(EXTRAS)}]"
    session.install("--upgrade", package, tested_torch(), "triton", *TEST_TOOLS)
    run_tests(session)


def run_tests(session: nox.Session) -> None:
    """Run the tests of the installed package: the given ones, or most of them."""
    session.run("supdocnade", "--version")
    files = session.posargs or [
        "tests/unit",
        *(
            f"--ignore=tests/unit/{folder}"
            for folder in ("benchmarks", "docs", "experiments", "tools")
        ),
        "tests/functional/test_cli.py",
        "tests/functional/test_corpus_on_disk.py",
        "tests/functional/test_reproducible_training.py",
        "tests/functional/test_without_extras.py",
    ]
    # Releases that do not know each other warn, so warnings are not errors here. The kernels of a
    # new environment are compiled first, which takes minutes on a busy machine.
    session.run("pytest", *IN_PARALLEL, "-W", "default", "--timeout", "900", *files)


def lowest_version(requirement: str) -> str:
    """Return the requirement `name>=version` as `name==version`, and torch as `tested_torch`."""
    name, version = requirement.split(">=")
    return tested_torch() if name == "torch" else f"{name}=={version}"


def tested_torch() -> str:
    """Return torch in the tested version, or in that of the variable TORCH.

    Not every package index has other releases for a CPU, and those for a GPU take several
    gigabytes.
    """
    (version,) = re.findall(r"^torch==(\S+)$", Path("constraints.txt").read_text(), re.M)
    return f"torch=={os.environ.get('TORCH', version)}"


@nox.session(python="3.11")
def minimal(session: nox.Session) -> None:
    """Run the commands without any extra, and check that those needing one say so."""
    session.install(*CONSTRAINED, ".", "pandas", "pytest", "pytest-timeout", "pytest-xdist")
    missing = "import fastapi, uvicorn, multipart, onnx, onnxruntime, pillow_heif"
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


@nox.session(python="3.11")
def tools(session: nox.Session) -> None:
    """Let Label Studio and FiftyOne read what is written for them."""
    programs = ("fiftyone", "label-studio-sdk")
    session.install(".", tested_torch(), *programs, *TEST_TOOLS)
    session.run(
        "pytest",
        *("-W", "default", "--timeout", "900"),
        "tests/functional/test_examples.py",
        *session.posargs,
    )


@nox.session(python="3.11")
def dist(session: nox.Session) -> None:
    """Build wheel and sdist twice, with the same bytes, and check what they hold."""
    session.install(*CONSTRAINED, "build", "hatchling", "twine")
    built = []
    for folder in ("dist", f"{session.create_tmp()}/again"):
        for old in Path(folder).glob("supdocnade-*"):
            old.unlink()
        session.run("python", "-m", "build", "--no-isolation", "--outdir", folder, silent=True)
        built.append(sorted(Path(folder).glob("supdocnade-*")))
    for one, other in zip(*built, strict=True):
        digest = hashlib.sha256(one.read_bytes()).hexdigest()
        if one.read_bytes() != other.read_bytes():
            session.error(f"{one.name} has other bytes if it is built again.")
        session.log(f"{digest}  {one.name}, {one.stat().st_size / 1e6:.1f} MB")
    session.run("twine", "check", "--strict", *map(str, built[0]))
    wheel, sdist = sorted(built[0], key=lambda path: path.suffix != ".whl")
    allowed = re.compile("|".join(WHEEL_FILES))
    others = [name for name in zipfile.ZipFile(wheel).namelist() if not allowed.fullmatch(name)]
    if others:
        session.error(f"the wheel must not hold {', '.join(others)}; see WHEEL_FILES.")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    if missing := {"LICENSE", "CHANGELOG.md", "constraints.txt", "tests/conftest.py"} - held:
        session.error(f"the sdist lacks {', '.join(sorted(missing))}.")


@nox.session(python=False)
def changelog(session: nox.Session) -> None:
    """Compile the fragments in changes/ into CHANGELOG.md, under the current version."""
    source = Path("src/supdocnade/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.M)
    session.run("towncrier", "build", "--yes", "--version", version, *session.posargs)
