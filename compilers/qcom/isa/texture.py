"""Forms of category 5."""

from typing import Final

from compilers.qcom.isa.forms import Form

FORMS: Final[tuple[Form, ...]] = ()
