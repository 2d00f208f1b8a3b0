"""Configuration that checks itself: `fields` are constructor, repr, JSON and documentation;
`schema` writes them for other programs.
"""

from ..names import guide as _guide
from .fields import Configured, bound, field

_guide(__name__)
