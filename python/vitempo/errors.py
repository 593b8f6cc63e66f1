"""The exceptions of vitempo. Each has the node it speaks of and a hint, where there are any."""

from __future__ import annotations

from typing import Any, Optional


class VitempoError(Exception):
    """The base of all exceptions of vitempo.

    Attributes:
        message: What is wrong.
        node: Name of the model's node that is at fault; None where it is none.
        hint: What to do about it; None where that is open.
    """

    def __init__(
        self, message: str, *, node: Optional[str] = None, hint: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self.message, self.node, self.hint))


def _restored(
    kind: type[VitempoError], message: str, node: Optional[str], hint: Optional[str]
) -> VitempoError:
    return kind(message, node=node, hint=hint)


class InvalidModel(VitempoError, ValueError):
    """The file or the object is not a model that can be read."""


class ModelNotFound(InvalidModel, FileNotFoundError):
    """There is no such file."""


class DynamicShape(InvalidModel):
    """A dimension of an input has no value; `dims` gives it one."""


class UnsupportedOperator(VitempoError):
    """The bundle's framework cannot run an operator of the model."""


class LimitExceeded(VitempoError):
    """The model takes more memory or work than one model may."""


class UnknownBundle(VitempoError, LookupError):
    """There is no bundle of this name."""


class InvalidBundle(VitempoError, ValueError):
    """The file is not a bundle that can be used."""


class InvalidSpace(VitempoError, ValueError):
    """The search space cannot be read, or is too small."""


class InvalidEncoding(VitempoError, ValueError):
    """The text or the object is not an architecture of the space."""


class InvalidArgument(VitempoError, ValueError):
    """An argument is not what it has to be; the message names it."""


class SearchError(VitempoError):
    """A search cannot be made with these options."""


class NothingFits(SearchError):
    """No architecture is within the ceiling."""


class PlanError(VitempoError):
    """There is no plan, or none within the bounds."""


class ClusterError(VitempoError):
    """A job on a cluster cannot start, or a part of it failed."""


class InvalidDataset(VitempoError, ValueError):
    """The folder is not a dataset that can be read, or has no such table or column."""


class InvalidLatencies(VitempoError, ValueError):
    """Measured latencies that a device cannot be adapted to."""


class NothingMeasured(VitempoError, LookupError):
    """The dataset has no measurement that a bundle can be evaluated on."""


class ProgramNotFound(VitempoError, FileNotFoundError):
    """There is no program `vitempo`, which measures and trains."""


class ProgramError(VitempoError):
    """The program `vitempo` refused its task or failed.

    Attributes:
        returncode: Its exit code: 1 for the input or a gate, 2 for a fault of vitempo.
    """

    def __init__(
        self,
        message: str,
        *,
        node: Optional[str] = None,
        hint: Optional[str] = None,
        returncode: int = 1,
    ) -> None:
        super().__init__(message, node=node, hint=hint)
        self.returncode = returncode

    def __reduce__(self) -> tuple[Any, ...]:
        return (_of_program, (self.message, self.hint, self.returncode))


def _of_program(message: str, hint: Optional[str], returncode: int) -> ProgramError:
    return ProgramError(message, hint=hint, returncode=returncode)
