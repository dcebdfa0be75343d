"""Record files: whole, cut off, damaged, foreign."""

from pathlib import Path

import numpy as np
import pytest

from report.errors import ReportError
from report.rqfile import NO_RCODE, TRANSPORTS, Status, read_rq
from report.tests.writers import Query, records, rq_bytes

ROOT = Path(__file__).parents[2]
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


def test_the_example_is_read_byte_for_byte() -> None:
    """core/wire/result_file_test.cc writes it, with the same values."""
    file = read_rq(ROOT / "tests/records/example.rq")
    assert (file.problem, file.host, file.querier) == (None, "client1", 2)
    assert file.start_mono_ns == 0x1112131415161718
    first, second = file.records.tolist()
    assert first == (
        *(0x0102030405060708, -0x1112131415161718, 0x2122232425262728, 0x3132333435363738),
        *(0x4142434445464748, 0x5152535455565758, 0x6162636465666768, 0x71727374, 0x81828384, 0x91929394),
        *(0xA1A2, 0xB1B2, 0xC1C2, Status.CONNECTION_FAILED, TRANSPORTS.index("https"), 0xD1D2, 2, 0xE1),
    )
    assert second == (0, 0, 0, 0, 0, -1, 0, 0, 0, 0, NO_RCODE, 0, 0, Status.TIMED_OUT, 0, 0, 0, 0)
    assert file.statistics == {"schema": 1}


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
