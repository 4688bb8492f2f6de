"""Arguments of a push of a result run, checked before anything is read or sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prime_async.errors import UsageError
from prime_async.evals.pushing import PushOptions
from prime_async.evals.receipts import ResumeToken

__all__ = ["EvaluationKnown", "RunOptions", "token_for"]

EvaluationKnown = Callable[[str, int], Awaitable[None] | None]
"""Called with the id of the evaluation and the number of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Arguments of one push of a run; see ``AsyncEvalsClient.push_run``."""

    push: PushOptions
    env: str | None = None
    model_name: str | None = None
    name: str | None = None
    run_id: str | None = None
    evaluation_id: str | None = None
    is_public: bool | None = None
    metrics: Mapping[str, Any] | None = None
    skip_oversized: bool = False
    push_id: str | None = None
    resume: str | bool | None = None
    finalize: bool = True
    on_evaluation: EvaluationKnown | None = None

    @classmethod
    def checked(
        cls,
        *,
        evaluation_id: str | None,
        push_id: str | None,
        resume: str | bool | None,
        on_evaluation: EvaluationKnown | None,
        push: Mapping[str, Any],
        **rest: Any,
    ) -> RunOptions:
        """Check everything that can be checked before the file is read.

        Raises:
            UsageError: names the argument.
        """
        if on_evaluation is not None and not callable(on_evaluation):
            raise UsageError("on_evaluation cannot be called", field="on_evaluation")
        if not (resume is None or isinstance(resume, bool | str)):
            raise UsageError(f"resume is a {type(resume).__name__}", field="resume")
        for field in ("is_public", "run_id"):
            if rest[field] and (evaluation_id or resume):
                raise UsageError(f"{field} counts for a new evaluation only", field=field)
        if resume and push_id is not None:
            raise UsageError("push_id names a new push; resume goes on with one", field="push_id")
        token = token_for(evaluation_id, resume) if isinstance(resume, str) else None
        anywhere = evaluation_id or (token.evaluation_id if token else "new")
        return cls(
            evaluation_id=evaluation_id,
            push_id=push_id,
            resume=resume,
            on_evaluation=on_evaluation,
            push=PushOptions.checked(
                anywhere, push_id=push_id, resume=str(token) if token else None, **push
            ),
            **rest,
        )


def token_for(evaluation_id: str | None, resume: str) -> ResumeToken:
    """Read a resume token that is to be of this evaluation; None is any.

    Raises:
        UsageError: it is no token, or of another evaluation.
    """
    token = ResumeToken.parse(resume)
    if evaluation_id not in (None, token.evaluation_id):
        raise UsageError(
            f"the resume token is of evaluation {token.evaluation_id}, not {evaluation_id}",
            field="resume",
        )
    return token
