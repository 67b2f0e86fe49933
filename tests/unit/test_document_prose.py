"""Prose of the documents: sentences that end, and words that the field uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md",
             *sorted((ROOT / "docs").glob("*.md"))]  # fmt: skip
MOST_WORDS = 45
"""Of a sentence. We aim at 30; names of tests and places count as one word each."""
ITEM = re.compile(r"^\s*(?:[*-]|\d+\.) ")
NOT_PROSE = re.compile(r"^\s*\||^#|^ {4,}|^>")
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"\[*(])|(?<=\.\))\s+")
AVOIDED = re.compile(r"\b(?:told|tells|nobody)\b|\bis none of\b|\bno whole number\b", re.IGNORECASE)


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each in one line; no tables, code or headings."""
    block: list[str] = []
    for line in [*re.sub(r"(?sm)^ *```.*?^ *```", "", text).split("\n"), ""]:
        inside = bool(block) and not ITEM.match(line) and bool(line.strip())
        if not inside and block:
            yield " ".join(block)
            block = []
        if line.strip() and (inside or ITEM.match(line) or not NOT_PROSE.match(line)):
            block.append(ITEM.sub("", line).strip())


def sentences(text: str) -> Iterator[str]:
    for paragraph in paragraphs(text):
        plain = re.sub(r"`[^`]*`", "`x`", paragraph)
        yield from END.split(re.sub(r"\]\([^)]*\)", "]", plain))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_sentences_end(document: Path) -> None:
    long = [each for each in sentences(document.read_text()) if len(each.split()) > MOST_WORDS]
    check(not long, "\n".join(long))


def test_words_that_are_avoided() -> None:
    found = [
        f"{path.name}: {each}"
        for path in DOCUMENTS
        for each in sentences(path.read_text())
        if AVOIDED.search(each)
    ]
    check(not found, "\n".join(found))


def test_a_long_sentence_is_found() -> None:
    text = "Short.\n\n* An item\n  of two lines. " + "Word " * 46 + "end.\n\n    code " + "x " * 60
    check([len(each.split()) for each in sentences(text)] == [1, 5, 47], str(list(sentences(text))))
