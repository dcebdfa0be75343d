"""Names of a trace, by their frequency and in the form that synthetic traces are made of."""

from pathlib import Path

from tests import command
from tests.bed import synth

NAMES = ["a.example.", "b.example.", "_x.c.example.", "e.example."]


def listed(folder: Path, trace: Path, *words: str) -> list[str]:
    done = command.run("trace", "names", str(trace), *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_names_of_a_trace_make_another_one(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("\n".join(NAMES) + "\n", encoding="ascii")
    words = ("--profile", "recursive", "--queries", "4000", "--names")
    first = synth(tmp_path / "one.pcap", *words, str(tmp_path / "names"))
    assert listed(tmp_path, first) == NAMES  # the n-th is asked for n times as rarely as the first
    assert listed(tmp_path, first, "--top", "2", "-o", "list") == []
    assert (tmp_path / "list").read_text(encoding="ascii").split() == NAMES[:2]
    second = synth(tmp_path / "two.pcap", *words, str(tmp_path / "list"))
    assert set(listed(tmp_path, second)) == set(NAMES[:2])


def test_any_name_of_a_trace_can_be_asked_for(tmp_path: Path) -> None:
    names = ["a,b.example.", ".", 'a\\"\\.b\\032\\\\.']
    rows = "".join(f"{number}\t192.0.2.1\t{name}\tA\n" for number, name in enumerate(names * 2 + names[:1]))
    (tmp_path / "in.tsv").write_text(f"#reprise-text 1\ntime\tsource\tname\ttype\n{rows}", encoding="ascii")
    found = listed(tmp_path, tmp_path / "in.tsv", "-o", "list") or (tmp_path / "list").read_text().split()
    assert sorted(found) == sorted(["a\\044b.example.", ".", "a\\034\\.b\\032\\\\."])
    words = ("--profile", "recursive", "--queries", "300", "--names", str(tmp_path / "list"))
    assert sorted(listed(tmp_path, synth(tmp_path / "out.pcap", *words))) == sorted(found)


def test_a_cut_trace_says_so(tmp_path: Path) -> None:
    text = "#reprise-text 1\ntime\tsource\tname\ttype\n1\t192.0.2.1\ta.\tA\n2\t192.0.2.1\tb.\tA"
    (tmp_path / "cut.tsv").write_text(text, encoding="ascii")
    done = command.run("trace", "names", "cut.tsv", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "a.\n")
    assert "reprise-mutator: cut.tsv: " in done.stderr


def test_what_is_no_trace_is_one_line(tmp_path: Path) -> None:
    done = command.run("trace", "names", "none", cwd=tmp_path)
    assert (done.returncode != 0, done.stderr.count("\n")) == (True, 1)
    assert done.stderr.startswith("reprise: error: cannot open trace none")
