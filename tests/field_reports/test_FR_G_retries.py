"""Field reports, group G: carried out, and the answer lost."""

from __future__ import annotations

import pytest

from prime_async.errors import APIConnectionError, PartialPushError
from tests.faults.conftest import Setting
from tests.faults.plan import Break, FaultPlan, Moment, on, path

LOST = Break("reset", Moment.EXECUTED)


def _lose_answers_of(setting: Setting, target: str, method: str) -> None:
    setting.proxy.plan = FaultPlan([on(LOST, when=path(target, method))])


async def test_FR27_create(setting: Setting) -> None:
    """Create is sent once, or again with the key that the platform knows; one evaluation exists."""
    _lose_answers_of(setting, "/evaluations/$", "POST")
    if setting.by_index:
        before = [e async for e in setting.direct.iter_evaluations()]
        created = await setting.client.create_evaluation("FR-27", run_id="r")
        after = [e async for e in setting.direct.iter_evaluations()]
        assert len(after) == len(before) + 1
        assert after[0].evaluation_id == created.evaluation_id
        return
    with pytest.raises(APIConnectionError, match="may have been carried out") as caught:
        await setting.client.create_evaluation("FR-27", run_id="r")
    assert caught.value.ambiguous
    assert [e.method for e in setting.proxy.exchanges].count("POST") == 1


async def test_FR27_push(setting: Setting) -> None:
    """No sample is stored twice; where nobody can tell, the receipt says unknown."""
    evaluation_id = await setting.create()
    _lose_answers_of(setting, "/samples$", "POST")
    if setting.by_index:
        assert (await setting.client.push_samples(evaluation_id, [{"example_id": 1}])).complete
    else:
        with pytest.raises(PartialPushError) as caught:
            await setting.client.push_samples(evaluation_id, [{"example_id": 1}])
        assert caught.value.receipt.unknown == ((0, 1),)
    assert await setting.stored(evaluation_id) == [1]


async def test_FR27_get_and_delete_repeat(setting: Setting) -> None:
    """GET and DELETE are sent again; the 404 of the second DELETE means done."""
    evaluation_id = await setting.create()
    _lose_answers_of(setting, "/evaluations/", "GET")
    assert (await setting.client.get_evaluation(evaluation_id)).evaluation_id == evaluation_id
    _lose_answers_of(setting, "/evaluations/", "DELETE")
    await setting.client.delete_evaluation(evaluation_id)
    assert [e.method for e in setting.proxy.exchanges] == ["GET", "GET", "DELETE", "DELETE"]
