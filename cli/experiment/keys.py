"""What the keys of experiments are made of: types, ranges and meanings."""

import re
from typing import Annotated, Any, dataclass_transform

from pydantic import AfterValidator, ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

_CONFIG = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
class Table:
    """What is made of this is a table of experiments: a frozen dataclass that pydantic checks."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, config=_CONFIG)(cls)


class File:
    """Marks texts that are paths: they count from the folder of the experiment."""


def form(pattern: str, what: str, hint: str) -> Any:
    """A text has to match a pattern as a whole; `what` says that it does not, `hint` how to fix it."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise PydanticCustomError("form", "no match", {"what": what, "hint": hint})
        return text

    return AfterValidator(check)


def doc(text: str) -> Any:
    return Field(description=text)


def span(low: float, high: float, text: str) -> Any:
    """A number's lowest and highest value, and what it means."""
    return Field(ge=low, le=high, description=text)


Text = Annotated[str, Strict(), form(r"[^\0]*", "has a NUL character", "leave it out")]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]
Path = Annotated[Text, File()]
Zone = Annotated[
    Text,
    form(r"[\w.\\*/-]{1,1000}", "is not a domain name", "give the zone's name, such as example.org."),
]
Texts = tuple[Text, ...]
Mixed = Whole | Number | Text  # as it is written
