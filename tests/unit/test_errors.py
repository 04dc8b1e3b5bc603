import importlib.metadata
import json

import pytest

from supdocnade.errors import install_command


class Installed:
    def __init__(self, record):
        self.record = record

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.record


def test_extras_come_from_the_clone_that_was_installed(tmp_path, monkeypatch):
    clone = tmp_path / "my clone"
    clone.mkdir()
    record = json.dumps({"url": clone.as_uri(), "dir_info": {"editable": True}})
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(record))
    elsewhere = "pip install '.[serve]' in a clone of supdocnade"
    assert install_command("serve") == elsewhere  # The clone was removed.
    (clone / "pyproject.toml").touch()
    assert install_command("serve") == f"pip install '{clone}[serve]'"


@pytest.mark.parametrize("record", [None, '{"url": "https://example.org/supdocnade.whl"}'])
def test_without_a_clone_the_command_is_for_one(monkeypatch, record):
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(record))
    assert install_command("deep") == "pip install '.[deep]' in a clone of supdocnade"


def test_a_package_that_is_not_installed_has_a_clone(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("deep") == "pip install '.[deep]' in a clone of supdocnade"
