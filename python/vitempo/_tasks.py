"""What plans of several tasks have in common."""

from __future__ import annotations

import json
from typing import Any, Generic, Protocol, TypeVar


class _Planned(Protocol):
    @property
    def name(self) -> str: ...


TaskType = TypeVar("TaskType", bound=_Planned)


class OfTasks(Generic[TaskType]):
    """A plan whose tasks are found by name, and whose JSON is kept."""

    tasks: list[TaskType]
    _json: str

    def __getitem__(self, task: str) -> TaskType:
        for found in self.tasks:
            if found.name == task:
                return found
        raise KeyError(task)

    def to_dict(self) -> dict[str, Any]:
        """All figures, those of memory, engines and other systems too; ns."""
        found: dict[str, Any] = json.loads(self._json)
        return found
