"""Read the names and values of the fields of a PDF form with PDFium (ISO 32000-2, 12.7)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from catchment.content.normalize.office.pdf.pdfium_calls import string

_PASSWORD = 1 << 13
_MAX_OPTIONS = 1_000
_MAX_SHOWN = 100_000
"""Characters of a page from which values are not searched in it; each search costs 5 ns for each character."""
_OFF = "Off"
"""The state of a check box or radio button that is not selected."""


@contextmanager
def form_of(document: Any) -> Iterator[Any]:
    """Open the form of a document, which may have none. Its scripts do not run."""
    import pypdfium2.raw as pdfium

    configuration = pdfium.FPDF_FORMFILLINFO(version=2)
    form = pdfium.FPDFDOC_InitFormFillEnvironment(document, configuration)
    try:
        yield form
    finally:
        pdfium.FPDFDOC_ExitFormFillEnvironment(form)


def is_xfa(document: Any) -> bool:
    """Return whether the form is also, or only, described in XML (XFA), which PDFium does not read."""
    import pypdfium2.raw as pdfium

    return document.get_formtype() in (pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND)


def fields(form: Any, page: Any, text: Any) -> Iterator[tuple[str, str]]:
    """Yield name and value of the widgets of a page. The value is empty if the page has it as text in the same place."""
    import pypdfium2.raw as pdfium

    shown = None
    for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
        widget = pdfium.FPDFPage_GetAnnot(page, index)
        if pdfium.FPDFAnnot_GetSubtype(widget) == pdfium.FPDF_ANNOT_WIDGET:
            name, value = _field(form, widget)
            if value:
                shown = shown or _spaced(text.get_text_range())
                words, box = _spaced(value), pdfium.FS_RECTF()
                if len(shown) < _MAX_SHOWN and words in shown and pdfium.FPDFAnnot_GetRect(widget, box):
                    place = text.get_text_bounded(box.left, box.bottom, box.right, box.top)
                    value = "" if words in _spaced(place) else value
            yield name, value
        pdfium.FPDFPage_CloseAnnot(widget)


def _field(form: Any, widget: Any) -> tuple[str, str]:
    """Return name and value of the field of a widget; the value is empty for buttons, signatures and passwords.

    A widget outside the form, as programs that merge files leave it, still has its own name and value.
    """
    import pypdfium2.raw as pdfium

    kind = pdfium.FPDFAnnot_GetFormFieldType(form, widget)
    flags = ctypes.c_float(pdfium.FPDFAnnot_GetFormFieldFlags(form, widget))
    if kind <= pdfium.FPDF_FORMFIELD_UNKNOWN:
        pdfium.FPDFAnnot_GetNumberValue(widget, b"Ff", flags)
    if kind in (pdfium.FPDF_FORMFIELD_PUSHBUTTON, pdfium.FPDF_FORMFIELD_SIGNATURE) or int(flags.value) & _PASSWORD:
        return "", ""
    own_name, own_value = (string(pdfium.FPDFAnnot_GetStringValue, widget, key) for key in (b"T", b"V"))
    name = string(pdfium.FPDFAnnot_GetFormFieldName, form, widget) or own_name
    title = string(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, widget)
    value = string(pdfium.FPDFAnnot_GetFormFieldValue, form, widget)
    if kind == pdfium.FPDF_FORMFIELD_TEXTFIELD:
        value = own_value or value
    elif kind in (pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX):
        value = ", ".join(_selected(form, widget)) or value
    elif value in ("", _OFF):
        value = own_value if own_value != _OFF else ""
    return f"{name} ({title})" if title not in ("", name) else name, value


def _selected(form: Any, widget: Any) -> Iterator[str]:
    """Yield the labels of the selected options of a choice."""
    import pypdfium2.raw as pdfium

    for index in range(min(pdfium.FPDFAnnot_GetOptionCount(form, widget), _MAX_OPTIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, widget, index):
            yield string(pdfium.FPDFAnnot_GetOptionLabel, form, widget, index)


def _spaced(text: str) -> str:
    """Return the words with one space before, between and after them."""
    return f" {' '.join(text.split())} "
