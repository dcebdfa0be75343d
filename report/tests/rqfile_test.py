"""Record files: whole, cut off, damaged, foreign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from report.errors import ReportError
from report.rqfile import Status, read_rq
from report.tests.writers import Query, records, rq_bytes

ROWS = records([Query(seq=n, due=n * 1000, sent=n * 1000 + 7) for n in range(100)])


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "queries-client1-0.rq"
    path.write_bytes(content)
    return path


def test_whole_file_gives_every_field_back(tmp_path: Path) -> None:
    file = read_rq(write(tmp_path, rq_bytes(ROWS, counts={"sent": 100})))
    assert np.array_equal(file.records, ROWS)
    assert not file.cut_off
    assert file.problem is None
    assert file.statistics["counts"] == {"sent": 100}
    assert (file.host, file.querier) == ("client1", 0)


@pytest.mark.parametrize("lost", [1, 8, 31, 32, 33, 100, 32 + 80, 32 + 80 * 3 + 7, 80 * 50])
def test_cut_file_is_read_to_its_last_whole_record(tmp_path: Path, lost: int) -> None:
    whole = rq_bytes(ROWS)
    file = read_rq(write(tmp_path, whole[:-lost]))
    held = len(file.records)
    assert file.cut_off
    assert file.problem is not None
    assert np.array_equal(file.records, ROWS[:held])
    assert held >= min(100, 100 - (lost - 32) // 80 - 1)


def test_cut_at_every_byte_never_fails(tmp_path: Path) -> None:
    whole = rq_bytes(ROWS[:3])
    for size in range(len(whole)):
        file = read_rq(write(tmp_path, whole[:size]))
        assert file.cut_off
        assert len(file.records) <= 3


def test_unused_space_after_a_crash_is_no_record(tmp_path: Path) -> None:
    whole = rq_bytes(ROWS)
    body_end = len(whole) - len(rq_bytes(ROWS[:0])) + len(rq_bytes(ROWS[:0])[: -(32 + 40)])
    file = read_rq(write(tmp_path, whole[: body_end - 40] + b"\0" * 800))
    assert file.cut_off
    assert len(file.records) <= 100
    assert set(file.records["status"]) == {Status.ANSWERED}


def test_a_changed_record_is_noticed(tmp_path: Path) -> None:
    whole = bytearray(rq_bytes(ROWS))
    whole[-1000] ^= 1
    assert "checksum" in str(read_rq(write(tmp_path, bytes(whole))).problem)


def test_unknown_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="schema 2, known is 1"):
        read_rq(write(tmp_path, rq_bytes(ROWS, schema=2)))


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"is not a \.rq file"):
        read_rq(write(tmp_path, b"\xd4\xc3\xb2\xa1" + b"\0" * 100))


def test_a_missing_file_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot read"):
        read_rq(tmp_path / "none.rq")


def test_fields_come_from_the_header(tmp_path: Path) -> None:
    whole = rq_bytes(ROWS).replace(b'"seq"', b'"sex"')
    with pytest.raises(ReportError, match="lacks the fields seq"):
        read_rq(write(tmp_path, whole))
