"""`sayso jobs` on a real database: jobs that really failed are listed, and offered again."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from sayso import Agent, Sayso
from sayso.cli import main
from sayso.store.queue import HELD_MAX
from sayso.testing import ScriptedModel
from tests.engine.kit import until


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> Result:
        said = CliRunner().invoke(main, args, env={"SAYSO_STORE": None}, prog_name="sayso")
        assert said.exit_code == code, said.output
        return said

    return run


@pytest.fixture
def url(postgres, run) -> str:
    found = postgres.database()
    run("migrate", found)
    return found


def enqueue(postgres, url: str, count: int) -> None:
    """Put jobs into the queue that are none of ours: whoever picks one fails."""
    postgres.execute(
        "set search_path = sayso; select enqueue(array_fill(0, array[n]), "
        "array_fill('teller'::text, array[n]), array_fill('nonsense'::bytea, array[n]), "
        "array_fill(interval '0', array[n]), array(select 'x' || i from generate_series(1, n) i), "
        f"array_fill(null::jsonb, array[n])) from (values ({count})) as x (n)",
        _database(url),
    )


def statuses(postgres, url: str) -> dict[str, int]:
    sql = "select status::text, count(*) from sayso.work group by status"
    return dict(postgres.execute(sql, _database(url)))


def _database(url: str) -> str:
    return url.partition("///")[2].partition("?")[0]


def test_jobs_that_failed_are_listed_and_offered_again(run, postgres, url):
    async def fail() -> None:
        async with Sayso(url, agents=[Agent("teller", model=ScriptedModel([]))]):
            enqueue(postgres, url, 3)
            await until(lambda: statuses(postgres, url) == {"failed": 3}, "their failing")

    assert run("jobs", "list", "--store", url).stdout == ""
    asyncio.run(fail())

    lines = run("jobs", "list", "--store", url, code=1).stdout.splitlines()
    said = run("jobs", "list", "--store", url, "--json", code=1).stdout.splitlines()
    ids = [json.loads(one)["id"] for one in said]
    assert [line.split()[0] for line in lines] == [str(one) for one in ids]
    assert all("teller" in line and "BadValue: the job" in line for line in lines)
    assert "`sayso jobs requeue --all`" in run("doctor", "--store", url).stdout

    some = run("jobs", "requeue", str(ids[0]), "999999", str(ids[0]), "--store", url, code=1)
    assert "1 job is offered again" in some.stderr
    assert "not held, or not there: 999999" in some.stderr
    assert statuses(postgres, url) == {"queued": 1, "failed": 2}
    every = run("jobs", "requeue", "--all", "--store", url, "--json").stdout
    assert json.loads(every) == {"ok": True, "requeued": 2, "not_held": []}
    assert statuses(postgres, url) == {"queued": 3}
    assert run("jobs", "list", "--store", url).stdout == ""


def test_all_of_them_are_more_than_a_page(run, postgres, url):
    enqueue(postgres, url, HELD_MAX + 50)
    postgres.execute("update sayso.work set status = 'failed'", _database(url))

    assert "150 jobs are offered again" in run("jobs", "requeue", "--all", "--store", url).stderr
    assert statuses(postgres, url) == {"queued": 150}


def test_all_that_were_held_are_offered_once_whatever_fails_meanwhile(run, postgres, url):
    """A worker picks and fails them as fast as they are offered, by a clock that was put back, and
    others besides.
    """
    many = 2 * HELD_MAX + 50
    enqueue(postgres, url, many)
    postgres.execute(
        "set search_path = sayso; update work set status = 'failed'; truncate work_log; "
        "create function fail_again() returns trigger language plpgsql as $$ begin "
        "insert into work (priority, entrypoint, created, updated, status) "
        f"select 0, 'teller', now(), now(), 'failed' where new.id <= {many}; "
        "new.status := 'failed'; new.updated := old.updated; return new; end $$; "
        "create trigger again before update on work for each row execute function fail_again()",
        _database(url),
    )

    said = run("jobs", "requeue", "--all", "--store", url).stderr

    assert said == f"{many} jobs are offered again\n"
    offered = "select job_id, count(*) from sayso.work_log where status = 'queued' group by 1"
    assert sorted(postgres.execute(offered, _database(url))) == [(n, 1) for n in range(1, many + 1)]
    assert statuses(postgres, url) == {"failed": 2 * many}


async def test_whoever_waits_for_all_is_told_how_far_it_is(postgres, url):
    told: list[tuple[int, int]] = []
    enqueue(postgres, url, HELD_MAX + 50)
    postgres.execute("update sayso.work set status = 'failed'", _database(url))

    async with Sayso(url, work=False) as app:
        assert await app.store.queue.requeue_all(lambda *far: told.append(far)) == 150
        assert await app.store.queue.requeue_all() == 0

    assert told == [(100, 150), (150, 150)]


@pytest.mark.parametrize("args", [(), ("1", "--all")], ids=str)
def test_jobs_are_named_or_all(run, url, args):
    said = run("jobs", "requeue", *args, "--store", url, code=2)

    assert "name the jobs, or say --all" in said.stderr


@pytest.mark.parametrize("args", [("list",), ("requeue", "--all")], ids=str)
def test_a_file_has_no_jobs(run, tmp_path, args):
    async def make() -> None:
        async with Sayso(tmp_path / "pay.db", work=False):
            pass

    asyncio.run(make())

    assert "a file has no queue" in run("jobs", *args, "--store", "pay.db", code=2).stderr
