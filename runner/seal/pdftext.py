"""The text that a page of a PDF shows, read by PDFium (the reader inside Chrome), not by what made the PDF."""

from __future__ import annotations

from runner.errors import NotAccepted


def page_texts(data: bytes, most: int) -> tuple[str, ...]:
    """Text of the first `most` pages, in the order of the file. Text in pictures is not found.

    Raises: NotAccepted for a file that PDFium cannot read.
    """
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(data) as document:
            return tuple(
                document[number].get_textpage().get_text_bounded() for number in range(min(most, len(document)))
            )
    except pypdfium2.PdfiumError as error:
        raise NotAccepted(
            f"its text cannot be read ({error})", next_step="ask who made the PDF for another copy"
        ) from None
