"""When the release build is configured again, and which Python packages are installed; nothing is run."""

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cli import programs, steps
from cli.errors import RepriseError
from cli.tools import building, needs
from cli.tools.building import Environment, Release


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder as cmake leaves it; ninja in it would be a failure."""
    monkeypatch.setattr(building, "BUILD", tmp_path)
    monkeypatch.setattr(building.subprocess, "run", lambda *_: pytest.fail("ninja was asked"))  # type: ignore[attr-defined]
    (tmp_path / "build.ninja").touch()
    (tmp_path / "CMakeCache.txt").write_text(f"A:B=c\nCMAKE_HOME_DIRECTORY:INTERNAL={programs.ROOT}\n")
    (tmp_path / ".configured-with").write_text("clang-19\ng++\n")
    return tmp_path


def test_nothing_wanted_is_built() -> None:
    assert Release((), ()).is_built()


@pytest.mark.parametrize("installed", [("g++",), ("clang-19", "g++", "mold")])
def test_other_packages_make_another_configuration(build: Path, installed: tuple[str, ...]) -> None:
    release = Release(("all",), installed)
    assert build.is_dir()
    assert not release.is_built()
    assert release.configure()[:3] == ("cmake", "--preset", "release")
    assert "-UREPRISE_*" in release.configure()  # or a compiler that has gone would be called


def test_what_is_configured_for_what_there_is_stays(build: Path) -> None:
    assert build.is_dir()
    assert Release(("all",), ("g++", "clang-19")).configure() == ()


def test_a_build_of_another_folder_is_not_touched(build: Path) -> None:
    """ninja would configure it again where it came from."""
    (build / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/another/folder\n")
    release = Release(("all",), ("g++", "clang-19"))
    assert not release.is_built()
    assert release.configure()[-1] == "--fresh"


def test_python_packages_are_installed_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "VENV", tmp_path)
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    for file in ("run.txt", "test.txt"):
        (tmp_path / file).write_text("a==1\n")
    run, both = Environment(("run.txt",)), Environment(("run.txt", "test.txt"))
    assert not run.is_made()
    run.finish(steps.Done((), 0, ""))
    assert run.is_made()
    assert not both.is_made()
    both.finish(steps.Done((), 0, ""))
    assert both.is_made()
    (tmp_path / "test.txt").write_text("a==2\n")
    assert run.is_made()
    assert not both.is_made()
    with pytest.raises(RepriseError, match="pip failed"):
        both.finish(steps.Done((), 1, "why"))
    assert not both.is_made()


def test_files_of_python_packages_list_all_that_these_need() -> None:
    """pip adds nothing to them. geni-lib and mergexp say that they need more than their tests use."""
    listed: set[str] = set()
    for file in (needs.RUN_PYTHON, needs.HOSTS_PYTHON, needs.TEST_PYTHON):
        lines = (programs.ROOT / file).read_text(encoding="utf-8").splitlines()
        listed |= {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
        wanted = {
            f"{name} needs {one.name}"
            for name in listed - {"geni-lib", "mergexp"}
            for one in map(Requirement, metadata.requires(name) or ())
            if (one.marker is None or one.marker.evaluate({"extra": ""}))
            and canonicalize_name(one.name) not in listed
        }
        assert wanted == set(), file
