"""Programs for arm64: cross-compiled in a bare system by the commands of docs/development.md, which also run
their unit tests under qemu-user. This machine's kernel loads the BPF programs.
"""

import ctypes
import os
import platform
import shutil
from pathlib import Path

import pytest

from cli.hosts import source
from tests.bare_system import BareSystem
from tests.docs_test import commands

pytestmark = [
    pytest.mark.slow,
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages in a system"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="programs are cross-compiled from x86-64"),
]

AARCH64 = 183  # e_machine of ELF
COMPILE_S = 7200.0


def test_programs_for_arm64_pass_their_unit_tests(tmp_path: Path) -> None:
    system = BareSystem(tmp_path / "root")
    tree = system.root / "root/reprise"
    try:
        system.make()
        for path in source.files():
            target = tree / path.relative_to(source.ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        for command in commands("docs/development.md", "dpkg", "apt-get", "cmake --preset arm64", "ctest"):
            if not command.startswith("./reprise"):
                unasked = command.replace("apt-get", "apt-get -q -y --no-install-recommends")
                print(system.text("sh", "-ec", unasked, cwd="/root/reprise", limit_s=COMPILE_S)[-2000:])
        made = list((tree / "build/arm64/bin").glob("reprise-*"))
        assert len(made) > 6
        assert {machine(path) for path in made} == {AARCH64}
        objects = list((tree / "build/arm64").rglob("*.bpf.o"))
        assert len(objects) > 3
        assert [path.name for path in objects if not loads(path)] == []
    finally:
        shutil.rmtree(system.root)  # pytest would keep it, and it is large


def machine(program: Path) -> int:
    """What an ELF file is for."""
    with program.open("rb") as file:
        return int.from_bytes(file.read(20)[18:], "little")


def loads(path: Path) -> bool:
    """Whether this kernel takes every program of a BPF object file; none of them stays."""
    libbpf = ctypes.CDLL("libbpf.so.1")
    libbpf.bpf_object__open_file.restype = ctypes.c_void_p
    libbpf.bpf_object__load.argtypes = libbpf.bpf_object__close.argtypes = [ctypes.c_void_p]
    opened = libbpf.bpf_object__open_file(os.fsencode(path), None)
    loaded: int = libbpf.bpf_object__load(opened)
    libbpf.bpf_object__close(opened)
    return loaded == 0
