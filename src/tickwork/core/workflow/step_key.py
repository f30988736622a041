"""The keys of steps: a step's name and how often it was used, in the order of calls.

Keys are given when a step is called, not when it ends, so that parallel steps have the same keys
whenever the body runs again. Two tasks that use one name would get its keys in an order that
depends on time, so that is refused.
"""

from __future__ import annotations

from tickwork.core.fields import text_faults
from tickwork.core.workflow.model import STEP_NAME_LENGTH_MAX, STEPS_MAX
from tickwork.errors import FieldError, InvalidInput


class StepKeys:
    """Gives keys to the steps of one execution of a body."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[int, object]] = {}
        self._keys: set[str] = set()

    def next(self, name: object, key: object = None, *, task: object = None) -> str:
        """The key of the next step with this name; `task` is the task that calls it."""
        is_known = isinstance(name, str) and name in self._used
        checked = str(name) if is_known else check_step_text("the name of a step", name)
        if key is None:
            made = self._numbered(checked, task)
        else:
            made = f"{checked}[{check_step_text('the key of a step', key)}]"
        if made in self._keys:
            named = f"step {checked!r}" if key is None else f"key {key!r}"
            raise InvalidInput([FieldError(named, f"makes a second step {made!r}; rename one")])
        if len(self._keys) >= STEPS_MAX:
            fault = f"is one step too many: a run has at most {STEPS_MAX}; use step.continue_as"
            raise InvalidInput([FieldError(made, fault)])
        self._keys.add(made)
        return made

    def _numbered(self, name: str, task: object) -> str:
        count, user = self._used.get(name, (0, task))
        if user is not task:
            fault = (
                "is used by two tasks, so which result belongs to which would depend on time; "
                "give each its own name, or key=…"
            )
            raise InvalidInput([FieldError(f"step {name!r}", fault)])
        self._used[name] = count + 1, task
        return name if count == 0 else f"{name}#{count + 1}"


COMPENSATE = "compensate "


def compensation_name(key: str) -> str:
    """The name of the step that undoes a step."""
    return f"{COMPENSATE}{key}"[:STEP_NAME_LENGTH_MAX]


def is_compensation(key: str) -> bool:
    """Whether a step undoes another one."""
    return key.startswith(COMPENSATE)


def check_step_text(field: str, text: object) -> str:
    """The name or key of a step; raises `InvalidInput` for one that cannot be stored."""
    if not isinstance(text, str):
        raise InvalidInput([FieldError(field, f"must be a text, not {text!r}")])
    if faults := text_faults(field, text, STEP_NAME_LENGTH_MAX):
        raise InvalidInput(faults)
    return text
