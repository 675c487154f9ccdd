"""Say of one scenario whether we agree, differ on purpose, or differ.

Not here: how each kind of scenario is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Verdict:
    """Collect what a comparison found.

    `purpose` holds the weakness rows whose repair was seen and checked, `differ` what no row explains.
    """

    purpose: dict[str, str] = field(default_factory=dict)  # row -> what is different
    differ: list[str] = field(default_factory=list)

    def on_purpose(self, row: str, what: str) -> None:
        self.purpose.setdefault(row, what)

    def check(self, holds: bool, what: str) -> bool:
        """Note a difference where something does not hold."""
        if not holds:
            self.differ.append(what)
        return holds

    @property
    def word(self) -> str:
        return "differs" if self.differ else "differs on purpose" if self.purpose else "agrees"

    def __str__(self) -> str:
        if self.differ:
            return f"{self.word}: {'; '.join(self.differ)}"
        if self.purpose:
            rows = ", ".join(sorted(self.purpose, key=lambda row: int(row[3:])))
            return f"{self.word}: {rows} ({'; '.join(self.purpose.values())})"
        return self.word
