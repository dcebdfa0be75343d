"""Answer files: order, joining, cut ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.errors import ReportError
from report.rafile import Answer, join, read_ra
from report.tests.writers import ra_bytes

ANSWERS = [(n, b"query%d" % n, b"" if n == 3 else b"reply" * n) for n in range(6)]


def write(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_every_record_comes_back(tmp_path: Path) -> None:
    file = read_ra(write(tmp_path, "a.ra", ra_bytes(ANSWERS, kind="trace")))
    assert file.kind == "trace"
    assert file.problem is None
    got = [file.answer(offset) for offset in file.offsets.tolist()]
    assert [(answer.seq, answer.query, answer.reply) for answer in got] == ANSWERS


def test_the_example_is_read_byte_for_byte() -> None:
    """core/wire/result_file_test.cc writes it, with the same values."""
    file = read_ra(Path(__file__).parents[2] / "tests/records/example.ra")
    assert (file.problem, file.kind) == (None, "replay")
    query, reply = bytes(range(1, 14)), bytes(range(0xF0, 0xFC))
    assert [file.answer(offset) for offset in file.offsets.tolist()] == [
        Answer(0x0102030405060708, 0x1112131415161718, 0x21222324, query, reply),
        Answer(9, 0, 0xFFFFFFFF, query, b""),
    ]


def test_cut_at_every_byte_keeps_what_is_whole(tmp_path: Path) -> None:
    whole = ra_bytes(ANSWERS)
    for size in range(len(whole)):
        file = read_ra(write(tmp_path, "a.ra", whole[:size]))
        assert file.cut_off
        got = [file.answer(offset) for offset in file.offsets.tolist()]
        assert [(answer.seq, answer.query, answer.reply) for answer in got] == ANSWERS[: len(got)]


def test_several_queriers_are_one_sequence(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, "answers-a-0.ra", ra_bytes([ANSWERS[4], ANSWERS[0], ANSWERS[2]])),
        write(tmp_path, "answers-b-0.ra", ra_bytes([ANSWERS[1], ANSWERS[5], ANSWERS[3], ANSWERS[1]])),
    ]
    joined = join("run", paths)
    assert [(answer.seq, answer.query, answer.reply) for answer in joined] == ANSWERS
    assert joined.duplicates == 1


def test_a_damaged_length_ends_the_file_with_a_problem(tmp_path: Path) -> None:
    whole = bytearray(ra_bytes(ANSWERS))
    at = whole.index(b"query2") - 12
    whole[at : at + 4] = b"\xff\xff\xff\x00"
    file = read_ra(write(tmp_path, "a.ra", bytes(whole)))
    assert len(file.seqs) == 2
    assert file.problem is not None


def test_an_rq_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"is not a \.ra file"):
        read_ra(write(tmp_path, "a.ra", b"RPRQHDR1" + b"\0" * 64))
