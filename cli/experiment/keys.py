"""What the keys of experiments are made of: types, ranges and meanings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

CONFIG = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class File:
    """Marks texts that are paths: they count from the folder of the experiment."""


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "has a NUL character")
    return text


def doc(text: str) -> Any:
    return Field(description=text)


def span(low: float, high: float, text: str) -> Any:
    """A number's lowest and highest value, and what it means."""
    return Field(ge=low, le=high, description=text)


Text = Annotated[str, Strict(), AfterValidator(_without_nul)]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]
Path = Annotated[Text, File()]
Texts = tuple[Text, ...]
Mixed = Whole | Number | Text  # as it is written
