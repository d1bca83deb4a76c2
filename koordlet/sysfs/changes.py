"""What the executor is asked for and what it did, as plain records."""

from dataclasses import dataclass, field
from enum import StrEnum

from koordlet.sysfs.errors import NotPermitted, Unsupported
from koordlet.sysfs.journal import Key
from koordlet.sysfs.knobs import Knob, KnobValue


class Owner(StrEnum):
    """Who decides over a control file. Two owners never wish for the same file; the earlier one here wins if so."""

    SUPPRESS = "suppress"
    WEIGHTS = "weights"
    BATCH = "batch"


@dataclass(frozen=True)
class Wish:
    """The value a strategy wants in a file, for as long as it goes on wishing it.

    `vital` files are read every cycle, the others every few cycles, to notice what others write. `key` names the
    file; it is made once, since most wishes live long.
    """

    group: str
    knob: Knob
    value: KnobValue
    vital: bool = False
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.group, self.knob))


@dataclass(frozen=True)
class Changed:
    """A file that now holds another value. `is_restore`: the original came back."""

    owner: str
    group: str
    knob: Knob
    before: str
    after: str
    is_restore: bool = False


@dataclass(frozen=True)
class Failed:
    """A file that could not be brought to the wanted value; the old one is still in place."""

    owner: str
    group: str
    knob: Knob
    error: str


@dataclass(frozen=True)
class Foreign:
    """Somebody else wrote a file that is ours. `found` is theirs; `left` says that it was not replaced."""

    owner: str
    group: str
    knob: Knob
    found: str
    left: bool = False


@dataclass
class Applied:
    """What one round of writing did."""

    changed: list[Changed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    foreign: list[Foreign] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    not_permitted: list[str] = field(default_factory=list)
    conflicts: list[Key] = field(default_factory=list)
    pending: int = 0
    """Originals that are still to be restored because writing them failed."""

    def note_unsupported(self, error: Unsupported) -> None:
        """Sort what the kernel does not offer from what the agent may not touch."""
        (self.not_permitted if isinstance(error, NotPermitted) else self.unsupported).append(str(error))

    @property
    def is_clean(self) -> bool:
        """Whether everything that was wanted is in place."""
        return not (self.failed or self.unsupported or self.not_permitted or self.conflicts or self.pending)
