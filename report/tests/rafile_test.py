"""Answer files: order, joining, cut ends."""

import itertools
import random
from pathlib import Path

import pytest

from report import rafile, rqfile
from report.errors import ReportError
from report.rafile import Answer, AnswerSet, RaFile, join, windows
from report.sources import digested
from report.tests.writers import ra_bytes

ANSWERS = [(n, b"query%d" % n, b"" if n == 3 else b"reply" * n) for n in range(6)]


def write(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def read_ra(path: Path) -> RaFile:
    (file,) = digested(join("", [path])).files
    return file


def answers(*files: RaFile) -> list[Answer]:
    return [one for (places,) in windows([AnswerSet("", "", files)]) for one in places]


def test_every_record_comes_back(tmp_path: Path) -> None:
    file = read_ra(write(tmp_path, "a.ra", ra_bytes(ANSWERS, kind="trace")))
    assert file.header["kind"] == "trace"
    assert file.problem is None
    got = answers(file)
    assert [(answer.seq, answer.query, answer.reply) for answer in got] == ANSWERS


def test_the_example_is_read_byte_for_byte() -> None:
    """core/wire/result_file_test.cc writes it, with the same values."""
    file = read_ra(Path(__file__).parents[2] / "tests/records/example.ra")
    assert (file.problem, file.header["kind"]) == (None, "replay")
    query, reply = bytes(range(1, 14)), bytes(range(0xF0, 0xFC))
    assert answers(file) == [
        Answer(9, 0, 0xFFFFFFFF, query, b""),
        Answer(0x0102030405060708, 0x1112131415161718, 0x21222324, query, reply),
    ]


def test_cut_at_every_byte_keeps_what_is_whole(tmp_path: Path) -> None:
    whole = ra_bytes(ANSWERS[:3])
    for size in range(len(whole)):
        file = read_ra(write(tmp_path, "a.ra", whole[:size]))
        assert file.cut_off
        got = answers(file)
        assert [(answer.seq, answer.query, answer.reply) for answer in got] == ANSWERS[: len(got)]


def test_zeros_behind_the_records_are_none(tmp_path: Path) -> None:
    file = read_ra(write(tmp_path, "a.ra", ra_bytes(ANSWERS)[:-32] + bytes(4096)))
    assert (file.cut_off, len(file)) == (True, len(ANSWERS))


def test_several_queriers_are_one_sequence(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, "answers-a-0.ra", ra_bytes([ANSWERS[4], ANSWERS[0], ANSWERS[2]])),
        write(tmp_path, "answers-b-0.ra", ra_bytes([ANSWERS[1], ANSWERS[5], ANSWERS[3], ANSWERS[1]])),
    ]
    joined = digested(join("run", paths))
    assert [(answer.seq, answer.query, answer.reply) for answer in answers(*joined.files)] == ANSWERS
    assert len(joined) == len(ANSWERS) + 1


def test_windows_have_the_same_numbers_of_all_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order in the files, each record is in the window of its number."""
    for module, name, value in ((rqfile, "CHUNK", 4), (rqfile, "_SAMPLE", 2), (rafile, "_WINDOW", 8)):
        monkeypatch.setattr(module, name, value)
    rng = random.Random(3)
    numbers = [[rng.randrange(80) for _ in range(60)] for _ in range(3)]
    paths = [
        write(tmp_path, f"{at}.ra", ra_bytes([(n, b"query", b"%d" % n) for n in held]))
        for at, held in enumerate(numbers)
    ]
    sets = [digested(join("a", paths[:2])), digested(join("b", paths[2:]))]
    wanted = [sorted({*numbers[0], *numbers[1]}), sorted({*numbers[2]})]
    found = list(windows(sets))
    assert len(found) > 4
    for at, seqs in enumerate(wanted):
        assert [one.seq for held in found for one in held[at]] == seqs
        assert all(one.reply == b"%d" % one.seq for held in found for one in held[at])
    for before, after in itertools.pairwise(found):
        ends = [set(one.seqs.tolist()) for held in (before, after) for one in held]
        assert max(ends[0] | ends[1]) < min(ends[2] | ends[3])


def test_a_damaged_length_ends_the_file_with_a_problem(tmp_path: Path) -> None:
    whole = bytearray(ra_bytes(ANSWERS))
    at = whole.index(b"query2") - 12
    whole[at : at + 4] = b"\xff\xff\xff\x00"
    file = read_ra(write(tmp_path, "a.ra", bytes(whole)))
    assert len(file) == 2
    assert file.problem is not None


def test_what_was_written_since_a_file_was_opened_is_left_out(tmp_path: Path) -> None:
    whole = ra_bytes(ANSWERS)
    opened = join("", [write(tmp_path, "a.ra", whole[:-50])])
    write(tmp_path, "a.ra", whole)
    (file,) = digested(opened).files
    got = answers(file)
    assert file.cut_off
    assert [(one.seq, one.query, one.reply) for one in got] == ANSWERS[: len(got)]


def test_a_record_that_reaches_over_the_end_is_damaged(tmp_path: Path) -> None:
    whole = bytearray(ra_bytes(ANSWERS))
    at = whole.index(b"query5") - 8
    whole[at : at + 4] = (50).to_bytes(4, "little")
    file = read_ra(write(tmp_path, "a.ra", bytes(whole)))
    assert len(file) == 5
    assert file.problem is not None


def test_an_rq_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"is not a \.ra file"):
        read_ra(write(tmp_path, "a.ra", b"RPRQHDR1" + b"\0" * 64))
