"""Records that were read share the sets of their field names (issue 5: memory of a report of 10,000 attempts)."""

from __future__ import annotations

from runner.evidence.attempt import FileReference

TEXT = b'{"path": "records/a.json", "sha256": "' + b"a" * 64 + b'", "rows": 3, "records_sha256": null}'


def test_equal_sets_are_one_and_a_copy_has_its_own() -> None:
    one, other = FileReference.loads(TEXT), FileReference.loads(TEXT)
    assert one.__pydantic_fields_set__ is other.__pydantic_fields_set__ == {"path", "sha256", "rows", "records_sha256"}
    fewer = FileReference.loads(TEXT.replace(b', "records_sha256": null', b""))
    changed = fewer.model_copy(update={"records_sha256": "b" * 64})
    assert fewer.model_fields_set == {"path", "sha256", "rows"}
    assert changed.model_fields_set == {"path", "sha256", "rows", "records_sha256"}
    assert FileReference.loads(TEXT) == one and changed != one
